// The step kinds of this folder: server.
#pragma once

namespace millwright {

class Knowledge;
class StepRegistry;
// `knowledge` is copied from here and may go away.
void register_server_steps(StepRegistry& registry, const Knowledge& knowledge);

}  // namespace millwright
