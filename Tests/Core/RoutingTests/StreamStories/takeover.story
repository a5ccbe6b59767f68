# The owner dies. The phone keeps its stream: the gateway attaches it at the next owner. The log has m1 still, and the gateway does not write m1 twice.
phone registers
phone listens
backend sends m1
run 50ms unseen
owner dies
backend sends m2
run 20ms
> 0.051 s  the partition has no owner: what came is lost
owner begins
run 20ms
> 0.070 s  the gateway attaches stream 1 at the owner, attachment 2
> 0.072 s  the owner of epoch 2 sends word that it has attached stream 1, for what comes after the beginning
> 0.072 s  the owner of epoch 2 sends m1 from the log
> 0.072 s  the owner of epoch 2 sends word that nothing more waits: stream 1 is live
backend sends m2
run 20ms
> 0.091 s  the owner of epoch 2 writes record 5
> 0.096 s  the database has record 5
> 0.096 s  the owner of epoch 2 answers the backend: accepted
> 0.096 s  the owner of epoch 2 sends frame 1, a push of m2
> 0.097 s  the gateway writes m2 to the phone
> 0.097 s  the gateway confirms frame 1
