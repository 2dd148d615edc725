//! What the scripts do to the keys, what they answer, and what they cost.

// mod commands;
// mod fair;
// mod multi;
// mod redlock;
// mod rwlock;
// mod single;
