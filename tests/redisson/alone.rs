//! What compares times runs while no other test does.

mod hand_over_beside_java;
