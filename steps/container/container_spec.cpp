#include "steps/container/container_spec.hpp"

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

constexpr std::string_view kOnNode = "node:";

// What the model and server steps need inside, so that no later step has to install anything.
// iproute2: `ss` names who holds a port; libgomp1: engines on the processor; python3-venv: engines that come as wheels.
Value default_packages() {
  return Value::array({"ca-certificates", "curl", "iproute2", "libgomp1", "procps", "python3", "python3-venv"});
}

std::vector<InputSpec> image_fields() {
  return {
      {.name = "suite",
       .default_value = "bookworm",
       .doc = "Release to make the root file system of, from the node's own package sources."},
      {.name = "packages",
       .type = ValueType::list,
       .default_value = default_packages(),
       .doc = "Packages in it from the start, besides systemd."},
      {.name = "rootfs", .doc = "A root file system as a tar file instead: a path here, or node:/path. Needs sha256."},
      {.name = "sha256", .doc = "SHA-256 of the `rootfs` tar file."},
  };
}

std::vector<InputSpec> inputs() {
  return {
      {.name = "name", .need = Need::required, .doc = "Name of the container on its node: letters, digits and dashes."},
      {.name = "backend",
       .default_value = "auto",
       .one_of = {"auto", "lxc"},
       .doc = "What runs it. auto takes plain LXC."},
      {.name = "state",
       .default_value = "started",
       .one_of = {"started", "stopped", "absent", "existing"},
       .doc = "absent destroys it with all that is in it; that cannot be taken back. existing takes a container that "
              "runs, whoever made it, and changes nothing of it."},
      {.name = "image",
       .type = ValueType::mapping,
       .default_value = Value::object(),
       .doc = "What its root file system is made from.",
       .fields = image_fields()},
      {.name = "memory", .type = ValueType::size, .doc = "Limit of its memory; no limit when absent."},
      {.name = "cores",
       .type = ValueType::integer,
       .doc = "Limit of its processor time, in cores; no limit when absent."},
      {.name = "bridge",
       .default_value = "auto",
       .doc = "Bridge of the node to plug it into. auto makes one of its own (mwbr0) with NAT to the outside."},
      {.name = "address",
       .default_value = "auto",
       .doc = "auto takes a free address of the bridge mwbr0; on another bridge give one as 192.0.2.7/24."},
      {.name = "gateway", .doc = "Its default gateway; known by itself on the bridge mwbr0."},
      {.name = "nesting",
       .type = ValueType::boolean,
       .default_value = true,
       .doc = "Allow what systemd's sandboxing and containers inside it need."},
      {.name = "autostart", .type = ValueType::boolean, .default_value = true, .doc = "Start it with the node."},
      {.name = "gpus",
       .default_value = "none",
       .one_of = {"none"},
       .doc = "GPUs to hand in. Only none is supported in this version."},
  };
}

Signature build() {
  Signature out;
  out.kind = "container";
  out.summary = "A system container on the node, with systemd and a network of its own";
  out.doc =
      "Asks lxc whether the container is there, how it is configured and whether it runs. Installs LXC where it is "
      "missing, makes the root file system (complete or absent, never half), and starts it; the node's certificates, "
      "package proxy, pip configuration and name servers are copied in. Other steps run inside with `in:`.\n\n"
      "Undo stops and removes what was newly made, and restores and restarts with the earlier configuration what was "
      "changed.";
  out.inputs = inputs();
  out.outputs = {
      {.name = "node", .type = ValueType::mapping, .doc = "For `in:` of later steps."},
      {.name = "name", .doc = "The container's name."},
      {.name = "address", .doc = "Its IPv4 address as seen from the node."},
  };
  out.positional = "name";
  out.provides_node = true;
  out.example =
      "- id: box\n  uses: container\n  with: {name: llm}\n- uses: command\n  in: box\n  with: {run: uname -a}\n";
  out.deadline = std::chrono::minutes(15);
  return out;
}

ContainerState state_of(const std::string& text) {
  if (text == "absent") return ContainerState::absent;
  if (text == "existing") return ContainerState::existing;
  return text == "stopped" ? ContainerState::stopped : ContainerState::started;
}

}  // namespace

bool ContainerImage::tarball_on_node() const { return starts_with(rootfs, kOnNode); }

std::string ContainerImage::node_path() const {
  if (tarball_on_node()) return rootfs.substr(kOnNode.size());
  return "/var/lib/millwright/cache/rootfs-" + sha256 + ".tar";
}

std::string ContainerImage::digest() const {
  return sha256_hex(from_tarball() ? "tarball " + sha256 : "suite " + suite).substr(0, 16);
}

const Signature& container_signature() {
  static const Signature signature = build();
  return signature;
}

ContainerSpec container_spec(const Inputs& given) {
  ContainerSpec spec;
  spec.name = given.string("name");
  spec.backend = given.string_or("backend", "auto");
  spec.state = state_of(given.string_or("state", "started"));
  const Value& image = given.value("image");
  // A key may be null: an optional input of the playbook that was not given.
  const auto text = [&image](const char* key, std::string otherwise) {
    const bool given_text = image.is_object() && image.contains(key) && image.at(key).is_string();
    return given_text ? image.at(key).get<std::string>() : otherwise;
  };
  spec.image.suite = text("suite", "bookworm");
  spec.image.rootfs = text("rootfs", "");
  spec.image.sha256 = text("sha256", "");
  const bool listed = image.is_object() && image.contains("packages") && image.at("packages").is_array();
  for (const Value& name : listed ? image.at("packages") : default_packages()) spec.image.packages.push_back(name);
  if (given.has("memory")) spec.memory_bytes = given.size("memory");
  if (given.has("cores")) spec.cores = given.integer("cores");
  spec.bridge = given.string_or("bridge", "auto");
  spec.address = given.string_or("address", "auto");
  spec.gateway = given.string_or("gateway", "");
  spec.nesting = given.boolean("nesting");
  spec.autostart = given.boolean("autostart");
  return spec;
}

}  // namespace millwright
