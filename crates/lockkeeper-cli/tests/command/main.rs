//! The real command against real servers: what it runs, what it prints, and how it ends.

#![cfg(unix)]

mod browsing;
mod crowding;
mod doctor;
mod electing;
mod ending;
mod input;
mod inside;
mod look;
mod losing;
mod once;
mod outage;
mod permits;
mod printed;
mod printing;
mod scraping;
mod serving;
mod several;
mod sharing;
mod signals;
mod strangers;
mod support;
mod terminal;
mod tmux;
mod top;
mod visiting;
mod watching;
