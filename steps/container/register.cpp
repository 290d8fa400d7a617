#include "steps/container/register.hpp"

#include <filesystem>
#include <memory>
#include <regex>

#include "steps/container/container_backend.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

namespace {

class ContainerStep final : public StepKind {
 public:
  const Signature& signature() const override { return container_signature(); }

  std::vector<Error> check(const Inputs& inputs) const override {
    std::vector<Error> errors;
    check_name(inputs, errors);
    check_image(inputs, errors);
    check_network(inputs, errors);
    return errors;
  }

  std::vector<Question> ask(const Inputs& inputs) const override { return lxc_backend().ask(container_spec(inputs)); }

  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override {
    return lxc_backend().plan(container_spec(inputs), answers);
  }

 private:
  static void report(std::vector<Error>& errors, const std::string& input, std::string message, std::string hint) {
    Error error = make_error(ErrorKind::invalid, std::move(message));
    error.hint = std::move(hint);
    error.detail = input;
    errors.push_back(std::move(error));
  }

  static void check_name(const Inputs& inputs, std::vector<Error>& errors) {
    // A host name label (RFC 1123), since it is the container's host name too.
    static const std::regex label("[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?");
    if (inputs.has("name") && !std::regex_match(inputs.string("name"), label)) {
      report(errors, "name", "'" + inputs.string("name") + "' is no name for a container",
             "letters, digits and dashes, at most 63");
    }
  }

  static void check_image(const Inputs& inputs, std::vector<Error>& errors) {
    const Value& image = inputs.value("image");
    if (!image.is_object() || !image.value("rootfs", Value()).is_string()) return;
    const std::string rootfs = image.at("rootfs");
    if (rootfs.empty()) return;
    if (!image.value("sha256", Value()).is_string() || image.value("sha256", "").size() != 64) {
      report(errors, "image", "a rootfs needs its sha256", "sha256sum " + rootfs);
    }
    if (rootfs.rfind("node:", 0) != 0 && !std::filesystem::is_regular_file(rootfs)) {
      report(errors, "image", "there is no file " + rootfs + " here", "for a file on the node write node:/path");
    }
  }

  static void check_network(const Inputs& inputs, std::vector<Error>& errors) {
    if (!inputs.has("bridge") || !inputs.has("address")) return;
    const bool own_bridge = inputs.string("bridge") == "auto";
    const bool own_address = inputs.string("address") == "auto";
    static const std::regex cidr("([0-9]{1,3}\\.){3}[0-9]{1,3}/[0-9]{1,2}");
    if (!own_bridge && own_address) {
      report(errors, "address", "on a bridge of the node an address has to be given", "address: 192.0.2.7/24");
    } else if (!own_address && !std::regex_match(inputs.string("address"), cidr)) {
      report(errors, "address", "'" + inputs.string("address") + "' is no address with a prefix length",
             "as in 192.0.2.7/24");
    }
  }
};

}  // namespace

void register_container_steps(StepRegistry& registry) { registry.add(std::make_unique<ContainerStep>()); }

}  // namespace millwright
