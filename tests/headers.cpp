// Carries the precompiled headers that all GoogleTest programs share.
