#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "orchestrator/report/html.hpp"

namespace millwright {

Result<std::string> write_html_report(Journal& journal, const std::string& run, const std::string& folder,
                                      const Redactor& secrets) {
  const auto events = journal.events(run);
  if (!events) return fail(events.error());
  const auto evidence = journal.evidence(run);
  if (!evidence) return fail(evidence.error());
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  const std::string path = folder + "/report.html";
  const std::string beside = path + "." + std::to_string(::getpid());
  std::ofstream out(beside, std::ios::binary);
  ::chmod(beside.c_str(), S_IRUSR | S_IWUSR);
  out << html_report(*events, *evidence, secrets);
  out.close();
  if (!out) {
    const std::string why = std::strerror(errno);
    std::filesystem::remove(beside, failure);
    return fail(make_error(ErrorKind::io, "cannot write " + path + ": " + why));
  }
  std::filesystem::rename(beside, path, failure);
  if (failure) return fail(make_error(ErrorKind::io, "cannot write " + path + ": " + failure.message()));
  return path;
}

}  // namespace millwright
