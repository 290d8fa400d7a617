#include "orchestrator/base/redact.hpp"

#include <openssl/evp.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<std::size_t>(size));
  while (!out.empty() && out.back() == '=') out.pop_back();
  return out;
}

std::string percent_encoded(std::string_view bytes) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string out;
  for (char c : bytes) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[static_cast<unsigned char>(c) & 15];
    }
  }
  return out;
}

}  // namespace

void Redactor::add(std::string_view secret) {
  constexpr std::size_t shortest = 4;
  std::vector<std::string> forms;
  for (const std::string& line : split_lines(secret)) {
    if (trim(line).size() >= shortest) forms.emplace_back(trim(line));
  }
  if (trim(secret).size() >= shortest) {
    const std::string whole(trim(secret));
    std::string escaped = Value(whole).dump(-1, ' ', false, Value::error_handler_t::replace);
    // As it stands between the quotes of a shell word.
    if (whole.find('\'') != std::string::npos) forms.push_back(replace_all(whole, "'", "'\\''"));
    forms.insert(forms.end(), {whole, base64(whole), percent_encoded(whole), escaped.substr(1, escaped.size() - 2)});
  }
  const Lock lock(mutex_);
  forms_.insert(forms_.end(), forms.begin(), forms.end());
  std::sort(forms_.begin(), forms_.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
  forms_.erase(std::unique(forms_.begin(), forms_.end()), forms_.end());
}

std::string Redactor::redact(std::string_view text) const {
  std::string out(text);
  const Lock lock(mutex_);
  for (const std::string& form : forms_) out = replace_all(std::move(out), form, "[secret]");
  return out;
}

Value Redactor::redact_value(const Value& value) const {
  if (value.is_string()) return redact(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Value out = Value::array();
    for (const Value& item : value) out.push_back(redact_value(item));
    return out;
  }
  if (value.is_object()) {
    Value out = Value::object();
    for (const auto& [key, item] : value.items()) out[redact(key)] = redact_value(item);
    return out;
  }
  return value;
}

Redactor& redactor() {
  static Redactor instance;
  return instance;
}

}  // namespace millwright
