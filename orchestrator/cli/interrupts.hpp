#pragma once

#include <csignal>

#include "orchestrator/engine/engine.hpp"

namespace millwright {

// While it lives, Ctrl-C, SIGTERM and SIGHUP raise the interrupt level instead of ending the process: once to finish
// what runs and start no more, twice to stop now. A third one ends the process. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  const InterruptLevel& level() const;

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
  struct sigaction old_hup_ {};
};

}  // namespace millwright
