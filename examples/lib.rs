//! Programs that teach Lockkeeper; see the `examples` of this package.
