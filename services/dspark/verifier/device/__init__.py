"""Moving a pass between host and device, and replaying it there."""
