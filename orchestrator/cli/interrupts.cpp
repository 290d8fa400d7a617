#include "orchestrator/cli/interrupts.hpp"

#include <unistd.h>

namespace millwright {
namespace {

InterruptLevel level_now{0};
static_assert(InterruptLevel::is_always_lock_free, "a signal handler must not wait for a lock");

void raise_level(int signal) {
  if (level_now.fetch_add(1) < 2) return;
  // Whoever asks a third time does not want to wait any longer; the journal is written ahead, so nothing is lost.
  ::_exit(128 + signal);
}

}  // namespace

Interrupts::Interrupts() {
  level_now = 0;
  struct sigaction action {};
  action.sa_handler = raise_level;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
  ::sigaction(SIGHUP, &action, &old_hup_);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  ::sigaction(SIGHUP, &old_hup_, nullptr);
}

const InterruptLevel& Interrupts::level() const { return level_now; }

}  // namespace millwright
