// Which virtual machines of Proxmox or libvirt are configured to get which PCI device.
//
// Pure functions; any thread.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace millwright::gpu {

struct VmClaim {
  std::string vm;       // "101"; a domain of libvirt: its name
  std::string key;      // "hostpci0", "hostdev"
  std::string pattern;  // what it names: "0000:01:00" (all functions), "0000:01:00.0"
  std::string mapping;  // by which it was named; empty: directly
  std::string section;  // empty: what runs; "PENDING": from its next start on; else the name of a snapshot
};

struct VirtualMachine {
  std::string id, name;
  bool running = false, starts_at_boot = false, is_template = false;
  bool libvirt = false;                      // else Proxmox's
  std::vector<std::string> pending_deletes;  // "hostpci0": goes away with its next start
};

struct VmClaims {
  std::map<std::string, VirtualMachine> machines;
  std::vector<VmClaim> claims;
  std::map<std::string, std::string> reserved;  // address -> VM that runs or starts with it, by Proxmox's own list

  // Claims on a function, those of snapshots left out.
  std::vector<VmClaim> on(std::string_view address) const;

  // "VM 101 (win11)", "domain win11".
  std::string title(const std::string& vm) const;
  // Commands for a person: what ends it, what takes the device out of its configuration, what keeps it from starting
  // with the host.
  std::string to_end(const std::string& vm) const;
  std::string to_take_out(const VmClaim& claim) const;
  std::string to_start_by_hand(const std::string& vm) const;
};

bool claim_names(const VmClaim& claim, std::string_view address);

// "01:00", "1:0.0", "0000:01:00.0" -> "0000:01:00" or "0000:01:00.0", lower case; empty when it is none.
std::string normal_pci_address(std::string_view text);

// Fills VmClaims from records of facts_script.
class VmClaimsBuilder {
 public:
  explicit VmClaimsBuilder(std::string hostname) : hostname_(std::move(hostname)) {}
  void machine(const std::string& id, bool running);
  void line(const std::string& id, const std::string& section, const std::string& text);
  void mapping_line(const std::string& text);
  void reservation(const std::string& text);
  void domain(const std::string& name, bool running, bool starts_at_boot);
  // Domain, bus, slot and function as libvirt writes them: "0x0000".
  void hostdev(const std::string& name, const std::array<std::string, 4>& address);
  VmClaims finish();

 private:
  struct Line {
    std::string vm, section, key, value;
  };
  void add_claims(const Line& line);

  std::string hostname_;
  VmClaims out_;
  std::vector<Line> lines_;
  std::vector<VmClaim> hostdevs_;
  std::map<std::string, std::vector<std::string>> mappings_;  // name -> patterns of this host
  std::string mapping_;
};

}  // namespace millwright::gpu
