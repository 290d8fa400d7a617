// How an engine version gets onto a node: one file a way (archive.cpp, wheel.cpp, uv.cpp), all giving the same thing:
// /opt/millwright/engines/<engine>-<version>/ with the profile's executable in it, complete or absent, beside others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"
#include "steps/contract/change.hpp"

namespace millwright {

struct InstallJob {
  std::string engine;
  std::string version;
  Value source;            // one entry of `sources`
  std::string executable;  // relative, as the profile says
  std::string launcher;    // text of the launcher that the source names; empty: none
  // Text of the locks that the source has, by platform and Python: "x86_64-py3.11".
  std::map<std::string, std::string> locks;

  std::string folder() const;   // /opt/millwright/engines/<engine>-<version>
  std::string partial() const;  // where it is built before it gets that name
};

// Reads what the source names from the controller's disk: launcher and locks (playbooks/knowledge/launchers and locks,
// the stronger folder first; `lock` may be a file of the user's). io when something is not there.
Result<InstallJob> install_job(const std::string& engine, const std::string& version, const Value& source,
                               const std::string& executable);

// Stateless; safe from any thread.
class EngineInstaller {
 public:
  virtual ~EngineInstaller() = default;
  virtual std::string method() const = 0;
  // What is wrong with a source, before anything is contacted.
  virtual std::vector<Error> check(const Value& source) const = 0;
  // Names the bytes that are installed; two sources with the same identity give the same environment.
  virtual std::string identity(const InstallJob& job) const = 0;
  // Read-only; what `prepare` has to know.
  virtual std::vector<Question> ask(const InstallJob& job) const = 0;
  // Actions before the one that builds: packages, uploads.
  virtual Result<std::vector<Action>> prepare(const InstallJob& job, const Answers& answers) const = 0;
  // Shell that fills the existing, empty folder $new; $final is the name it will get. It must fail when anything is
  // not as the source says.
  virtual std::string build(const InstallJob& job, const Answers& answers) const = 0;
  // Shell for the undo and for a removal, run once `final` is gone; `others` is set when environments of any engine
  // are left. Takes away what environments of this method share.
  virtual std::string clean_up(const InstallJob& /*job*/) const { return {}; }
  virtual Milliseconds build_deadline() const { return std::chrono::minutes(30); }
};

const EngineInstaller& archive_installer();
const EngineInstaller& wheel_installer();
const EngineInstaller& uv_installer();
// nullptr: no such method.
const EngineInstaller* find_installer(const std::string& method);

// Questions and plan for one environment, whole: what the server step hands to StepContext::converge.
std::vector<Question> environment_questions(const InstallJob& job);
// Shell that prints what is wrong with an environment, "12 of its 400 files are gone"; nothing when nothing is. Files
// are counted, not read: a few tenths of a second for the largest. `folder`: as a word of the shell.
std::string environment_damage_script(const std::string& folder);
Result<Change> plan_environment(const InstallJob& job, const Answers& answers);

// The text under a key; empty when it is absent, null or no text.
std::string source_text(const Value& source, const char* key);
// Holds a value that is not known yet (an expression over something that runs later), anywhere inside.
bool has_unknown(const Value& value);

// For installers: a path that starts with "node:" is on the node already.
bool is_on_node(const std::string& path);
std::string strip_node_prefix(const std::string& path);
inline constexpr const char* kUploads = "/var/lib/millwright/cache";
// Below it: engines/, and what their environments share (tools/, cache/).
inline constexpr const char* kEngineRoot = "/opt/millwright";

}  // namespace millwright
