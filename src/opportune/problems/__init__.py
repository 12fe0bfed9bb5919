"""Problems: what the agents know beforehand."""
