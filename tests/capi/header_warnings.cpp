// Programs compile symm.hpp with warnings of their own choice. Nothing runs.
#include <symm/fused.hpp>
#include <symm/symm.hpp>
