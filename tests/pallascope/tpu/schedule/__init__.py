"""The compiler's schedule, executed."""
