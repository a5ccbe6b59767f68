// Edge
