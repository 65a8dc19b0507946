"""What the active controller decides: pure functions of the image, one module a subject."""
