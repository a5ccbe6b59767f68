// Node
