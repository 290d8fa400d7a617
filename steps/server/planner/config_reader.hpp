// Inside of shape_of_config: the keys of config.json, which each family spells its own way.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "steps/server/planner/model_shape.hpp"

namespace millwright::planner {

// The first of these keys that is there and no null.
class ConfigReader {
 public:
  explicit ConfigReader(const Value& config) : config_(config) {}

  const Value* find(std::initializer_list<const char*> keys) const;
  int number(std::initializer_list<const char*> keys, int otherwise) const;
  double real(const char* key, double otherwise) const;
  std::string text(std::initializer_list<const char*> keys, const std::string& otherwise) const;
  bool flag(std::initializer_list<const char*> keys, bool otherwise) const;
  bool has(const char* key) const { return find({key}) != nullptr; }
  const Value& all() const { return config_; }

 private:
  const Value& config_;
};

enum class LayerWord { full, window, state, both, mlp };

// The kind of each layer, in order: from layer_types and the many older ways to say it.
std::vector<LayerWord> layer_words(const ConfigReader& config, const std::string& model_type, int layers);
StateShape state_shape(const ConfigReader& config, const std::string& model_type, int hidden);
QuantShape quant_shape(const Value& config);
std::optional<VisionShape> vision_shape(const Value& config, int text_hidden);

}  // namespace millwright::planner
