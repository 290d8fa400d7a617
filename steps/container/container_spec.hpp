// The inputs of the container step as plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "steps/contract/inputs.hpp"
#include "steps/contract/signature.hpp"

namespace millwright {

enum class ContainerState { started, stopped, absent, existing };  // existing: running, as it is

struct ContainerImage {
  std::string suite;                  // of Debian or Ubuntu, by the node's own package sources
  std::vector<std::string> packages;  // in it from the start
  std::string rootfs;                 // a tarball instead: a path here, or "node:/path"
  std::string sha256;                 // of that tarball

  bool from_tarball() const { return !rootfs.empty(); }
  bool tarball_on_node() const;
  std::string node_path() const;  // where the tarball is, or is placed, on the node
  std::string digest() const;     // names what the root file system was made from
};

struct ContainerSpec {
  std::string name;
  std::string backend;
  ContainerState state = ContainerState::started;
  ContainerImage image;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::int64_t> cores;
  std::string bridge;   // "auto": one of our own, with NAT
  std::string address;  // "auto", or CIDR on `bridge`
  std::string gateway;
  bool nesting = true;
  bool autostart = true;
};

const Signature& container_signature();
ContainerSpec container_spec(const Inputs& inputs);

}  // namespace millwright
