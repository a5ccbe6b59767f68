# A node dies. Gossip says so at once, but only the database decides: a partition moves after the fence.
nodes 3 partitions 4
run 8s unseen
look
> node-0 serves partition 2
> node-1 serves partition 0
> node-2 serves partitions 1 and 3
node-1 dies
run 3s
> 8.001 s  node-0 hears from gossip that node-1 is dead
> 8.001 s  node-2 hears from gossip that node-1 is dead
> 9.519 s  node-0 fences node-1, whose lease stands at 20
> 9.526 s  node-0 hears from the database that node-1 is fenced
> 9.535 s  node-0 asks the database for partition 0, whose owner node-1 is dead
> 9.538 s  node-0 owns partition 0 in epoch 3, and reads the journal
> 9.558 s  node-0 serves partition 0
look
> node-0 serves partitions 0 and 2
> node-2 serves partitions 1 and 3
