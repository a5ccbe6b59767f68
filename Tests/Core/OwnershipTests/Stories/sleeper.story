# A node sleeps for so long that it is fenced. It wakes up, finds its session dead, and believes nothing of its memory.
nodes 3 partitions 4
run 8s unseen
look
> node-0 serves partition 2
> node-1 serves partition 0
> node-2 serves partitions 1 and 3
node-1 sleeps 7s
run 6s
> 12.707 s  node-0 fences node-1, whose lease stands at 20
> 12.711 s  node-0 hears from the database that node-1 is fenced
> 12.715 s  node-0 asks the database for partition 0, whose owner node-1 is dead
> 12.724 s  node-0 owns partition 0 in epoch 3, and reads the journal
> 12.753 s  node-0 serves partition 0
look
> node-0 serves partitions 0 and 2
> node-1 sleeps, and remembers partition 0
> node-2 serves partitions 1 and 3
run 8s
> 15.006 s  node-1 finds its own session dead, throws all away, and begins a new session
> 15.013 s  node-1 is ready
> 18.283 s  node-0 tells its heir node-1 of partition 0
> 18.285 s  node-1 reads partition 0 ahead, while the owner still serves
> 18.316 s  node-1 tells node-0 that it has read partition 0
> 18.318 s  node-0 stops serving partition 0, and gives up the ownership
> 18.322 s  node-0 hears from the database that partition 0 has no owner now
> 18.334 s  node-1 asks the database for partition 0, which has no owner
> 18.338 s  node-1 owns partition 0 in epoch 4, and reads the journal
> 18.344 s  node-1 serves partition 0
look
> node-0 serves partition 2
> node-1 serves partition 0
> node-2 serves partitions 1 and 3
