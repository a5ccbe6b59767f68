# Gossip is cut, and the database is not. The minority gives its partitions up, no node is fenced, and all comes back.
nodes 3 partitions 4
run 8s unseen
look
> node-0 serves partition 2
> node-1 serves partition 0
> node-2 serves partitions 1 and 3
gossip between node-0 and node-1 node-2 is cut
run 5s
> 8.000 s  node-0 hears from gossip that node-1 is dead
> 8.000 s  node-1 hears from gossip that node-0 is dead
> 8.000 s  node-0 hears from gossip that node-2 is dead
> 8.000 s  node-2 hears from gossip that node-0 is dead
> 8.005 s  node-0 stops serving partition 2, and gives up the ownership
> 8.005 s  node-0 sees less than half of the nodes, and is cut off
> 8.011 s  node-0 hears from the database that partition 2 has no owner now
> 8.023 s  node-1 asks the database for partition 2, which has no owner
> 8.031 s  node-1 owns partition 2 in epoch 2, and reads the journal
> 8.035 s  node-1 serves partition 2
gossip between node-0 and node-1 node-2 heals
run 8s
> 13.000 s  node-0 hears from gossip that node-1 is back
> 13.000 s  node-1 hears from gossip that node-0 is back
> 13.000 s  node-0 hears from gossip that node-2 is back
> 13.000 s  node-2 hears from gossip that node-0 is back
> 13.094 s  node-0 is ready
> 16.629 s  node-1 tells its heir node-0 of partition 2
> 16.629 s  node-0 reads partition 2 ahead, while the owner still serves
> 16.656 s  node-0 tells node-1 that it has read partition 2
> 16.658 s  node-1 stops serving partition 2, and gives up the ownership
> 16.666 s  node-1 hears from the database that partition 2 has no owner now
> 16.668 s  node-0 asks the database for partition 2, which has no owner
> 16.673 s  node-0 owns partition 2 in epoch 3, and reads the journal
> 16.675 s  node-0 serves partition 2
look
> node-0 serves partition 2
> node-1 serves partition 0
> node-2 serves partitions 1 and 3
