// How an engine version gets onto a node: one file a way (archive.cpp, wheel.cpp), all giving the same thing:
// /opt/millwright/engines/<engine>-<version>/ with the profile's executable in it, complete or absent, beside others.
#pragma once

#include <memory>
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

  std::string folder() const;   // /opt/millwright/engines/<engine>-<version>
  std::string partial() const;  // where it is built before it gets that name
};

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
  virtual std::string build(const InstallJob& job) const = 0;
};

const EngineInstaller& archive_installer();
const EngineInstaller& wheel_installer();
// nullptr: no such method.
const EngineInstaller* find_installer(const std::string& method);

// Questions and plan for one environment, whole: what the server step hands to StepContext::converge.
std::vector<Question> environment_questions(const InstallJob& job);
Result<Change> plan_environment(const InstallJob& job, const Answers& answers);

// The text under a key; empty when it is absent, null or no text.
std::string source_text(const Value& source, const char* key);
// Holds a value that is not known yet (an expression over something that runs later), anywhere inside.
bool has_unknown(const Value& value);

// For installers: a path that starts with "node:" is on the node already.
bool is_on_node(const std::string& path);
std::string strip_node_prefix(const std::string& path);
inline constexpr const char* kUploads = "/var/lib/millwright/cache";

}  // namespace millwright
