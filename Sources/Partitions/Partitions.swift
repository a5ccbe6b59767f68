// Partitions
