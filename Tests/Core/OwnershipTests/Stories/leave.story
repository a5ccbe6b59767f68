# A node leaves in order. Its heir reads the partition first, so the partition is without an owner for a few milliseconds only.
nodes 3 partitions 4
run 8s unseen
look
> node-0 serves partition 2
> node-1 serves partition 0
> node-2 serves partitions 1 and 3
node-1 leaves
run 2s
> 8.006 s  node-1 tells its heir node-0 of partition 0
> 8.014 s  node-0 reads partition 0 ahead, while the owner still serves
> 8.030 s  node-0 tells node-1 that it has read partition 0
> 8.036 s  node-1 stops serving partition 0, and gives up the ownership
> 8.042 s  node-1 hears from the database that partition 0 has no owner now
> 8.048 s  node-1 has nothing left, and ends
> 8.049 s  node-0 asks the database for partition 0, which has no owner
> 8.058 s  node-0 owns partition 0 in epoch 3, and reads the journal
> 8.065 s  node-0 serves partition 0
look
> node-0 serves partitions 0 and 2
> node-2 serves partitions 1 and 3
