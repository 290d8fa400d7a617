#include "steps/server/planner/gguf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "steps/server/planner/quantity.hpp"
#include "steps/server/planner/size_check.hpp"

namespace millwright::planner {
namespace {

// Elements and bytes of a block, by type number. Source: ggml/src/ggml.c, type_traits.
struct BlockType {
  const char* name;
  int elements;
  int bytes;
};

const BlockType* block_type(std::uint32_t type) {
  static const std::map<std::uint32_t, BlockType> known = {
      {0, {"F32", 1, 4}},         {1, {"F16", 1, 2}},         {2, {"Q4_0", 32, 18}},      {3, {"Q4_1", 32, 20}},
      {6, {"Q5_0", 32, 22}},      {7, {"Q5_1", 32, 24}},      {8, {"Q8_0", 32, 34}},      {9, {"Q8_1", 32, 36}},
      {10, {"Q2_K", 256, 84}},    {11, {"Q3_K", 256, 110}},   {12, {"Q4_K", 256, 144}},   {13, {"Q5_K", 256, 176}},
      {14, {"Q6_K", 256, 210}},   {15, {"Q8_K", 256, 292}},   {16, {"IQ2_XXS", 256, 66}}, {17, {"IQ2_XS", 256, 74}},
      {18, {"IQ3_XXS", 256, 98}}, {19, {"IQ1_S", 256, 50}},   {20, {"IQ4_NL", 32, 18}},   {21, {"IQ3_S", 256, 110}},
      {22, {"IQ2_S", 256, 82}},   {23, {"IQ4_XS", 256, 136}}, {24, {"I8", 1, 1}},         {25, {"I16", 1, 2}},
      {26, {"I32", 1, 4}},        {27, {"I64", 1, 8}},        {28, {"F64", 1, 8}},        {29, {"IQ1_M", 256, 56}},
      {30, {"BF16", 1, 2}},       {34, {"TQ1_0", 256, 54}},   {35, {"TQ2_0", 256, 66}},   {39, {"MXFP4", 32, 17}},
      {40, {"NVFP4", 64, 36}}};
  const auto found = known.find(type);
  return found == known.end() ? nullptr : &found->second;
}

constexpr std::uint64_t kMaxText = 64u << 20;      // a chat template is some KiB
constexpr std::uint64_t kMaxEntries = 1u << 20;    // tensors, or key-value pairs
constexpr std::uint64_t kMaxElements = 64u << 20;  // of one array: a vocabulary has some 100,000
constexpr std::uint64_t kKeptNumbers = 8192;

class Reader {
 public:
  explicit Reader(std::istream& in) : in_(in) {}

  bool good() const { return good_; }
  template <class T>
  T plain() {
    T value{};
    in_.read(reinterpret_cast<char*>(&value), sizeof value);
    if (in_.gcount() != static_cast<std::streamsize>(sizeof value)) good_ = false;
    return good_ ? value : T{};
  }
  std::string text() {
    const auto size = plain<std::uint64_t>();
    if (!good_ || size > kMaxText) return stop();
    std::string out(size, '\0');
    in_.read(out.data(), static_cast<std::streamsize>(size));
    if (in_.gcount() != static_cast<std::streamsize>(size)) return stop();
    return out;
  }
  Value value(std::uint32_t type) {
    switch (type) {
      case 0:
        return plain<std::uint8_t>();
      case 1:
        return plain<std::int8_t>();
      case 2:
        return plain<std::uint16_t>();
      case 3:
        return plain<std::int16_t>();
      case 4:
        return plain<std::uint32_t>();
      case 5:
        return plain<std::int32_t>();
      case 6:
        return plain<float>();
      case 7:
        return plain<std::uint8_t>() != 0;
      case 8:
        return text();
      case 9:
        return array();
      case 10:
        return plain<std::uint64_t>();
      case 11:
        return plain<std::int64_t>();
      case 12:
        return plain<double>();
      default:
        stop();
        return {};
    }
  }

 private:
  std::string stop() {
    good_ = false;
    return {};
  }
  // Texts are counted, not kept: a vocabulary is only wanted for its size.
  Value array() {
    const auto type = plain<std::uint32_t>();
    const auto count = plain<std::uint64_t>();
    if (!good_ || count > kMaxElements || type == 9) return stop();
    if (type == 8) {
      for (std::uint64_t one = 0; one < count && good_; ++one) text();
      return count;
    }
    Value out = Value::array();
    for (std::uint64_t one = 0; one < count && good_; ++one) {
      Value element = value(type);
      if (one < kKeptNumbers) out.push_back(std::move(element));
    }
    return out;
  }

  std::istream& in_;
  bool good_ = true;
};

Failure broken(const std::string& path, const std::string& what) {
  return fail(make_error(ErrorKind::invalid, fmt::format("{}: {}", path, what))
                  .with_hint("a GGUF file begins with a whole header; was it downloaded to its end?"));
}

Result<void> read_tensors(Reader& reader, std::uint64_t count, const std::string& path, GgufFile& out) {
  for (std::uint64_t one = 0; one < count; ++one) {
    TensorInfo tensor;
    tensor.name = reader.text();
    const auto dimensions = reader.plain<std::uint32_t>();
    if (!reader.good() || dimensions > 8) return broken(path, "its list of tensors is cut short or garbled");
    double elements = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) elements *= static_cast<double>(reader.plain<std::uint64_t>());
    const auto type = reader.plain<std::uint32_t>();
    reader.plain<std::uint64_t>();  // offset
    if (!reader.good()) return broken(path, "its list of tensors is cut short or garbled");
    const BlockType* block = block_type(type);
    if (block == nullptr)
      return broken(path, fmt::format("tensor {} has the type {}, which is not known here", tensor.name, type));
    tensor.dtype = block->name;
    tensor.bytes = elements / block->elements * block->bytes;
    if (auto checked = check_bytes(tensor.bytes, path, "the size of tensor " + tensor.name); !checked) return checked;
    out.tensor_bytes += tensor.bytes;
    out.tensors.push_back(std::move(tensor));
  }
  return {};
}

}  // namespace

int GgufFile::number(const std::string& key, int otherwise) const {
  const auto found = values.find(key);
  if (found == values.end()) return otherwise;
  const Value& value = found->second;
  if (value.is_number()) return whole_of(value.get<double>());
  if (!value.is_array() || value.empty()) return otherwise;
  double most = 0;
  for (const Value& one : value) most = std::max(most, one.is_number() ? one.get<double>() : 0.0);
  return whole_of(most);
}

std::string GgufFile::text(const std::string& key, const std::string& otherwise) const {
  const auto found = values.find(key);
  return found != values.end() && found->second.is_string() ? found->second.get<std::string>() : otherwise;
}

Result<GgufFile> read_gguf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return fail(
        make_error(ErrorKind::io, "cannot read " + path).with_hint("does it exist, and may this user read it?"));
  Reader reader(in);
  const auto magic = reader.plain<std::uint32_t>();
  const auto version = reader.plain<std::uint32_t>();
  if (!reader.good() || magic != 0x46554747) return broken(path, "this is no GGUF file");
  if (version < 2 || version > 3) return broken(path, fmt::format("GGUF version {} is not known here", version));
  const auto tensors = reader.plain<std::uint64_t>();
  const auto pairs = reader.plain<std::uint64_t>();
  if (!reader.good() || tensors > kMaxEntries || pairs > kMaxEntries) return broken(path, "its header is garbled");
  GgufFile out;
  for (std::uint64_t one = 0; one < pairs; ++one) {
    const std::string key = reader.text();
    const auto type = reader.plain<std::uint32_t>();
    Value value = reader.value(type);
    if (!reader.good()) return broken(path, "its key-value pairs are cut short or garbled");
    out.values[key] = std::move(value);
  }
  if (auto read = read_tensors(reader, tensors, path, out); !read) return fail(read.error());
  return out;
}

}  // namespace millwright::planner
