"""Moving the arrays of a pass between host and device."""
