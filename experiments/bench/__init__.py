"""selfprobe side by side with the alternatives: ratios measured in one process, in turns."""
