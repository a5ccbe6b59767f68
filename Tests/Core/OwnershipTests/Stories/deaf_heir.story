# The heir hears nothing: the owner waits for three seconds, and gives up the partition all the same.
nodes 2 partitions 2
run 8s unseen
look
> node-0 serves partition 1
> node-1 serves partition 0
messages are lost
node-1 leaves
run 6s
> 8.005 s  node-1 tells its heir node-0 of partition 0
> 11.041 s  node-1 stops serving partition 0, and gives up the ownership
> 11.046 s  node-1 hears from the database that partition 0 has no owner now
> 11.051 s  node-1 has nothing left, and ends
> 11.057 s  node-0 asks the database for partition 0, which has no owner
> 11.064 s  node-0 owns partition 0 in epoch 3, and reads the journal
> 11.080 s  node-0 serves partition 0
look
> node-0 serves partitions 0 and 1
