#pragma once

namespace fit::dist {

/// For the first step of a training: if mpirun or srun started several processes and this one is alone in its world,
/// says once on stderr that each trains for itself, and how to connect them.
void warn_if_apart();

}  // namespace fit::dist
