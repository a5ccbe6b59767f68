// Placement
