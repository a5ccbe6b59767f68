import Model

/// The network between the processes of a cluster: connections carry frames in order and late, and break.
///
/// As with `PeerLink`, each loop has one connection to each other process to which it sends, and makes it for
/// the first frame. A reset loses what is under way, and both ends learn of it. No end learns of a cut, in
/// one direction or both: frames wait, arrive late if the cut heals, and are lost when an end that receives
/// nothing gives the connection up.
final class SimulatedNetwork {
    final class Connection {
        let from: SimulatedLoop
        let to: SimulatedProcess
        var isOpenAtFrom = true
        var isOpenAtTo = true
        /// Nothing that is under way arrives any more.
        var isDead = false
        var lastArrival = MonotonicTime.zero
        /// Parcels that wait for the way to be free again.
        var held: [Parcel] = []
        /// Each parcel that comes now was sent after this moment of the receiver's clock: the receiver then
        /// sent the last ping whose answer has come.
        var after: MonotonicTime
        init(from: SimulatedLoop, to: SimulatedProcess, after: MonotonicTime) {
            self.from = from
            self.to = to
            self.after = after
        }
    }
    /// What a connection carries, in order.
    enum Parcel {
        case frame([UInt8])
        /// The answer to the ping that was sent at this moment.
        case pong(MonotonicTime)
    }
    struct Direction: Hashable {
        var from: Int
        var to: Int
    }

    var heard = HeardDatagrams()

    unowned let world: ClusterSimulation
    var connections: [Connection] = []
    /// Directions in which nothing passes, and since when.
    private(set) var cuts: [Direction: MonotonicTime] = [:]
    /// Machines with slow links: how much longer each way takes, at most.
    var slowness: [Int: TimeSpan] = [:]

    private let timing: LinkTiming

    init(_ world: ClusterSimulation) {
        self.world = world
        timing = world.options.links
    }

    func isCut(_ from: Int, _ to: Int) -> Bool { cuts[Direction(from: from, to: to)] != nil }

    func latency(_ from: Int, _ to: Int) -> TimeSpan {
        let base = TimeSpan.microseconds(50) + world.roll(world.latencyMax)
        return base + world.roll((slowness[from] ?? .zero) + (slowness[to] ?? .zero))
    }

    // MARK: Sending

    /// `false` if the link does not take the bytes.
    func send(_ bytes: [UInt8], from: SimulatedLoop, to processID: ProcessID) -> Bool {
        guard let peer = from.peers[processID] else { return false }
        let isTaken = from.peers[processID]?.backlog.take(bytes: bytes.count) ?? false
        world.checkBounds(of: from.peers[processID]?.backlog ?? peer.backlog, after: bytes.count)
        guard let connection = peer.connection else {
            guard isTaken else { return false }
            if from.peers[processID]?.waiting.isEmpty ?? true {
                from.peers[processID]?.waitingSince = world.now
            }
            from.peers[processID]?.waiting.append(bytes)
            connect(from, processID, since: world.now)
            return true
        }
        guard isTaken else {
            world.count("peers cut off")
            close(connection, atFrom: true)
            return false
        }
        transmit(.frame(bytes), connection)
        return true
    }

    /// The other process has read a frame.
    private func taken(_ bytes: [UInt8], _ connection: Connection) {
        let processID = connection.to.processID
        guard connection.from.peers[processID]?.connection === connection else { return }
        connection.from.peers[processID]?.backlog.remove(bytes: bytes.count)
    }

    private func transmit(_ parcel: Parcel, _ connection: Connection) {
        if case .frame(let bytes) = parcel {
            world.observer?.sends(bytes, from: connection.from.process, to: connection.to)
        }
        let late = latency(connection.from.machine, connection.to.machine)
        let at = max(connection.lastArrival + .nanoseconds(1), world.now + late)
        connection.lastArrival = at
        world.after(at.since(world.now), .network) { self.arrive(parcel, connection) }
    }

    private func arrive(_ parcel: Parcel, _ connection: Connection) {
        guard !connection.isDead, connection.isOpenAtTo else {
            if case .frame(let bytes) = parcel {
                world.observer?.loses(bytes, from: connection.from.process, to: connection.to)
            }
            // The other process has no such connection any more, and the sender is notified.
            let (from, to) = (connection.from.machine, connection.to.machine)
            if !isCut(from, to), !isCut(to, from) { end(connection, atFrom: true, in: latency(to, from)) }
            return
        }
        if isCut(connection.from.machine, connection.to.machine) || !connection.held.isEmpty {
            world.debug("\(connection.from.processID) to \(connection.to.processID): held")
            connection.held.append(parcel)
            return
        }
        hand(parcel, connection)
    }

    private func hand(_ parcel: Parcel, _ connection: Connection) {
        // A parcel on a connection that a newer one has replaced is late. The receiver does not read it.
        let newest = connections.last { $0.from === connection.from && $0.to === connection.to }
        guard newest === connection else { return }
        let (to, processID) = (connection.to, connection.from.processID)
        switch parcel {
        case .frame(let bytes):
            world.note(UInt64(bytes.count) << 32 ^ UInt64(processID.rawValue))
            world.after(.zero, .arrived, process: to) {
                self.taken(bytes, connection)
                to.received(bytes, from: processID, after: connection.after)
            }
        case .pong(let sent): world.after(.zero, .arrived, process: to) { connection.after = sent }
        }
    }

    /// The listening end sends a ping, again and again.
    private func ping(_ connection: Connection) {
        guard !connection.isDead, connection.isOpenAtTo else { return }
        answer(connection, connection.to.monotonic)
        world.after(timing.ping, .network, process: connection.to) { self.ping(connection) }
    }

    private func answer(_ connection: Connection, _ sent: MonotonicTime) {
        let (from, to) = (connection.from.machine, connection.to.machine)
        // The kernel sends the ping again and again, until it passes or an end gives the connection up.
        let isHeld = isCut(to, from)
        world.after(
            isHeld ? .milliseconds(200) : latency(to, from), .network, process: connection.from.process
        ) {
            guard !connection.isDead, connection.isOpenAtFrom else { return }
            isHeld ? self.answer(connection, sent) : self.transmit(.pong(sent), connection)
        }
    }

    // MARK: Connecting

    private func connect(_ from: SimulatedLoop, _ processID: ProcessID, since: MonotonicTime) {
        guard let peer = from.peers[processID], !peer.isConnecting, !peer.isBackingOff else { return }
        from.peers[processID]?.isConnecting = true
        world.debug("\(from.processID) connects to \(processID)")
        attempt(from, processID, since: since)
    }

    private func attempt(_ from: SimulatedLoop, _ processID: ProcessID, since: MonotonicTime) {
        let machine = from.peers[processID]?.machine
        let target =
            machine.map { world.process(of: processID, on: $0) } ?? from.world.process(of: processID)
        let index = target?.machine ?? machine ?? from.machine
        if isCut(from.machine, index) || isCut(index, from.machine) {
            return world.after(timing.connect, .network, process: from.process) {
                self.failed(from, processID)
            }
        }
        guard let target else {
            return world.after(
                .microseconds(200) + world.roll(.microseconds(800)), .network, process: from.process
            ) {
                self.failed(from, processID)
            }
        }
        if target.frozenUntil > world.now {
            // The kernel takes the connection, and the frozen process does not greet.
            if world.now.since(since) > timing.silence { return failed(from, processID) }
            return world.after(.milliseconds(100), .network) { self.attempt(from, processID, since: since) }
        }
        let late = latency(from.machine, index) + latency(index, from.machine)
        world.after(late, .network, process: from.process) {
            guard target.isRunning, from.peers[processID] != nil, self.greet(from.process, target) else {
                return self.failed(from, processID)
            }
            let after = target.monotonic.rewound(by: self.timing.waitMax)
            let connection = Connection(from: from, to: target, after: after)
            self.connections.append(connection)
            self.world.debug("\(from.processID) is connected to \(processID)")
            from.peers[processID]?.isConnecting = false
            from.peers[processID]?.backoff = self.timing.backoffMin
            from.peers[processID]?.connection = connection
            from.report(processID, .stands)
            let waiting = from.peers[processID]?.waiting ?? []
            from.peers[processID]?.waiting = []
            self.ping(connection)
            let since = from.peers[processID]?.waitingSince ?? .zero
            if !waiting.isEmpty, self.world.now.since(since) > self.timing.waitMax {
                from.peers[processID]?.backlog.clear()
                return from.process.renewed(processID)
            }
            for bytes in waiting { self.transmit(.frame(bytes), connection) }
        }
    }

    /// Whether both ends prove that they have the key of one life.
    private func greet(_ one: SimulatedProcess, _ other: SimulatedProcess) -> Bool {
        guard one.key == other.key else {
            world.count("connections between lives refused")
            return false
        }
        return true
    }

    private func failed(_ from: SimulatedLoop, _ processID: ProcessID) {
        guard from.process.isRunning, let peer = from.peers[processID] else { return }
        world.debug("\(from.processID) cannot connect to \(processID)")
        from.peers[processID]?.isConnecting = false
        from.peers[processID]?.waiting = []
        from.peers[processID]?.backlog.clear()
        from.peers[processID]?.isBackingOff = true
        from.report(processID, .failed("no connection"))
        from.peers[processID]?.backoff = min(peer.backoff * 2, timing.backoffMax)
        world.after(peer.backoff, .network, process: from.process) {
            guard let peer = from.peers[processID] else { return }
            from.peers[processID]?.isBackingOff = false
            if !peer.waiting.isEmpty { self.connect(from, processID, since: self.world.now) }
        }
        // No connection broke: the frames that waited are lost, and gossip suspects no process for it.
        if !peer.waiting.isEmpty { from.process.renewed(processID) }
    }

    // MARK: Ends

    /// Breaks a connection: what is under way is lost, except for parcels that arrive within the next 2 ms.
    func reset(_ connection: Connection) {
        guard connection.isOpenAtFrom || connection.isOpenAtTo else { return }
        world.after(world.roll(.milliseconds(2)), .network) { connection.isDead = true }
        end(connection, atFrom: true, in: world.roll(.milliseconds(3)))
        end(connection, atFrom: false, in: world.roll(.milliseconds(3)))
    }

    private func end(_ connection: Connection, atFrom: Bool, in delay: TimeSpan) {
        let process = atFrom ? connection.from.process : connection.to
        world.after(delay, .network, process: process) {
            if atFrom {
                guard connection.isOpenAtFrom else { return }
                connection.isOpenAtFrom = false
                let processID = connection.to.processID
                let loop = connection.from
                if loop.peers[processID]?.connection === connection {
                    loop.peers[processID]?.connection = nil
                    loop.peers[processID]?.backlog.clear()
                    loop.report(processID, .broke)
                }
                process.linkReset(processID)
            } else {
                guard connection.isOpenAtTo else { return }
                connection.isOpenAtTo = false
                process.linkReset(connection.from.processID)
            }
        }
    }

    /// One end gives the connection up. The other end learns of it, immediately or by the silence.
    func close(_ connection: Connection, atFrom: Bool) {
        let (from, to) = (connection.from.process, connection.to)
        let (own, other) = atFrom ? (from, to) : (to, from)
        end(connection, atFrom: atFrom, in: .zero)
        if atFrom { world.after(world.roll(.milliseconds(2)), .network) { connection.isDead = true } }
        if !isCut(own.machine, other.machine) {
            end(connection, atFrom: !atFrom, in: latency(own.machine, other.machine))
        } else {
            let silence = timing.silence + world.roll(timing.ping)
            end(connection, atFrom: !atFrom, in: silence)
        }
    }

    /// The process has ended: its peers learn of it immediately if its machine runs, otherwise by silence.
    func ended(_ process: SimulatedProcess, isSilent: Bool) {
        for connection in connections where isOf(process, connection) {
            connection.isDead = connection.isDead || connection.to === process
            let isFrom = connection.from.process === process
            let other = isFrom ? connection.to : connection.from.process
            let isTold = !isSilent && !isCut(process.machine, other.machine)
            let silence = timing.silence + world.roll(timing.ping)
            end(
                connection, atFrom: !isFrom,
                in: isTold ? latency(process.machine, other.machine) : silence)
        }
        prune()
    }

    private func isOf(_ process: SimulatedProcess, _ connection: Connection) -> Bool {
        connection.from.process === process || connection.to === process
    }

    private func prune() {
        connections.removeAll { connection in
            let isFromGone = !connection.isOpenAtFrom || !connection.from.process.isRunning
            return isFromGone && (!connection.isOpenAtTo || !connection.to.isRunning)
        }
    }

    /// Gives up the connection to a process that is no member any more.
    func forget(_ connection: Connection) {
        if connection.isOpenAtFrom { close(connection, atFrom: true) }
    }

    // MARK: Cuts and silence

    func cut(_ from: Int, _ to: Int) {
        guard from != to, cuts[Direction(from: from, to: to)] == nil else { return }
        let since = world.now
        cuts[Direction(from: from, to: to)] = since
        for connection in connections {
            let (one, other) = (connection.from.machine, connection.to.machine)
            // Whether the end that receives nothing is the sender's.
            let deafIsFrom = one == to && other == from
            guard deafIsFrom || (one == from && other == to) else { continue }
            watch(connection, deafIsFrom) { [unowned self] in
                cuts[Direction(from: from, to: to)] == since
            }
        }
    }

    /// A sleeping process sends nothing, so its peers give its connections up after a while.
    func slept(_ process: SimulatedProcess) {
        let until = process.frozenUntil
        for connection in connections where isOf(process, connection) {
            watch(connection, connection.to === process) { process.frozenUntil == until }
        }
    }

    private func watch(_ connection: Connection, _ atFrom: Bool, while isSilent: @escaping () -> Bool) {
        let silence = timing.silence + world.roll(timing.ping)
        world.after(silence, .network) {
            guard isSilent() else { return }
            let end = atFrom ? connection.from.process : connection.to
            guard end.isRunning, end.frozenUntil <= self.world.now else { return }
            if atFrom ? connection.isOpenAtFrom : connection.isOpenAtTo {
                self.close(connection, atFrom: atFrom)
            }
        }
    }

    /// The way is free again, and what waited arrives.
    func heal(_ from: Int, _ to: Int) {
        guard cuts.removeValue(forKey: Direction(from: from, to: to)) != nil else { return }
        for connection in connections
        where connection.from.machine == from && connection.to.machine == to && !connection.held.isEmpty {
            world.after(world.roll(.milliseconds(400)), .network) {
                guard !self.isCut(from, to), !connection.isDead, connection.isOpenAtTo else { return }
                let held = connection.held
                connection.held = []
                for parcel in held { self.hand(parcel, connection) }
            }
        }
    }

    func healAll() {
        for cut in cuts.keys.sorted(by: { ($0.from, $0.to) < ($1.from, $1.to) }) { heal(cut.from, cut.to) }
        slowness = [:]
    }
}
