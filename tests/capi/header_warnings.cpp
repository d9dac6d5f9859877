// Programs compile symm.hpp with warnings of their own choice. Nothing runs.
#include <symm/symm.hpp>
