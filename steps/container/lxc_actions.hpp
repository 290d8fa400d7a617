// The actions of the LXC backend, each a script with its undo. Every script can run again after it ran half.
#pragma once

#include <string>
#include <vector>

#include "steps/container/container_spec.hpp"
#include "steps/contract/change.hpp"

namespace millwright {

// `subnet`: "10.213.0." of our own bridge.
Action bridge_action(const std::string& subnet);
// The folder for uploads, when the root file system comes as a tar file from here.
Action cache_folder_action();
Action rootfs_action(const ContainerSpec& spec);
// Writes the configuration; a running container is restarted with it.
Action configure_action(const ContainerSpec& spec, const std::string& config, bool running);
Action start_action(const ContainerSpec& spec);
Action stop_action(const ContainerSpec& spec);
Action destroy_action(const ContainerSpec& spec);

// The unit file of our own bridge; what the bridge question compares.
std::string bridge_unit(const std::string& subnet);
inline constexpr const char* kBridgeUnitPath = "/etc/systemd/system/millwright-bridge.service";
inline constexpr const char* kRootfsMarker = ".millwright-rootfs";  // in the container's folder

}  // namespace millwright
