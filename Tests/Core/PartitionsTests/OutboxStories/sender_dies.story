# The owner of the device partition dies before it hears the answer. The next owner asks how far the receiver is. The phone asks again.
phone registers
phone subscribes to news
run 8ms
> 0.001 s  the device partition writes record 3: phone subscribes to news
> 0.006 s  the database has record 3 of the device partition
> 0.006 s  the device partition offers entry 3 to the topic partition: phone joins news
> 0.007 s  the topic partition writes record 2: entry 3 of the device partition is applied
owner of device partition dies
run 20ms
> 0.012 s  the database has record 2 of the topic partition
> 0.012 s  the topic partition tells the device partition: all up to entry 3 is applied here
> 0.013 s  the device partition has no owner: the message is lost
owner of device partition begins
run 100ms
> 0.028 s  the device partition asks the topic partition how far it is
> 0.029 s  the topic partition tells the device partition: all up to entry 3 is applied here
phone subscribes to news
run 100ms
> 0.129 s  the device partition writes record 5: the topic partition has applied all up to entry 3
> 0.134 s  the database has record 5 of the device partition
> 0.134 s  the device partition answers phone: already done
look
> the device partition has as subscribed to news: phone
> the topic partition has as members of news: phone
