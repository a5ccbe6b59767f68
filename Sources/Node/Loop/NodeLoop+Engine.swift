import NodeCore

// Calls of the databases for a loop's partitions. The answers come back to the loop's mailbox.

extension NodeLoop {
    func call(_ call: DatabaseCall) {
        if case .giveUp(let id, _, _) = call { shared.forgetDoubts(of: id) }
        if call.line != .journal, let cluster = shared.cluster { return cluster.call(call) }
        // A lone node makes all calls on the thread that writes the journal.
        let (shared, boxes) = (shared, mailboxes)
        let caller = DatabaseCall.Caller(session: shared.session)
        shared.engines.all[call.database(shared.map)].perform(isLarge: call.isLarge) { engine in
            try call.perform(on: engine, for: caller, clock: Clock.now)
        } then: { result in
            shared.take(call.answer(result), boxes: boxes)
        }
    }
}
