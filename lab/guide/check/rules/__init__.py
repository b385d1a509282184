"""One module for each rule; see lab.guide.rulebook."""
