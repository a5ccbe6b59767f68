# A phone listens. Each message is durable first, then pushed, written, and confirmed.
phone registers
phone listens
run 20ms
> 0.000 s  the gateway attaches stream 1 at the owner, attachment 1
> 0.002 s  the owner of epoch 1 sends word that it has attached stream 1, for what comes after the beginning
> 0.002 s  the owner of epoch 1 sends word that nothing more waits: stream 1 is live
> 0.003 s  the gateway opens stream 1 for the phone
backend sends m1
run 20ms
> 0.021 s  the owner of epoch 1 writes record 3
> 0.026 s  the database has record 3
> 0.026 s  the owner of epoch 1 answers the backend: accepted
> 0.026 s  the owner of epoch 1 sends frame 1, a push of m1
> 0.027 s  the gateway writes m1 to the phone
> 0.027 s  the gateway confirms frame 1
phone acknowledges m1
run 20ms
> 0.041 s  the owner of epoch 1 writes record 4
> 0.046 s  the database has record 4
> 0.046 s  the owner of epoch 1 answers the phone: done
