"""Programs that measure what the packages cost, each beside what it is compared with."""
