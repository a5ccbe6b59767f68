import Model
import NodeCore
import Partitions
import Routing

// Clients with an address at a push service.

extension ClusterSimulation {
    struct PushKind {
        /// The kinds of services at which the client has addresses, in their order; empty: it has none.
        var kinds: [Transport.Kind] = []
        /// Whether the client never listens, and whether it acknowledges its messages itself.
        var isSilent = false
        var keepsMessages = false
        var isPushed: Bool { !kinds.isEmpty }
    }

    /// All of it follows from the client's number alone, so that runs without addresses roll no dice for it.
    func pushKind(_ client: Int) -> PushKind {
        var found = PushKind()
        guard options.pushedPerMille > 0 else { return found }
        var random = SeededGenerator(seed: options.seed ^ UInt64(client) &* 0x9E37_79B9)
        guard random.next(upperBound: UInt64(1000)) < options.pushedPerMille else { return found }
        found.isSilent = random.next(upperBound: UInt64(3)) > 0
        found.keepsMessages = random.next(upperBound: UInt64(2)) > 0
        found.kinds = [PushAddress.kind(ofDevice: client)]
        guard options.addressKindsMax > 1 else { return found }
        for _ in 0..<random.next(upperBound: UInt64(options.addressKindsMax)) {
            found.kinds.append(PushAddress.kind(ofDevice: client + found.kinds.count))
        }
        found.kinds.sort()
        return found
    }

    func tellAddress(_ client: Int, anyOf kinds: [Transport.Kind]) {
        tellAddress(client, kinds[kinds.count > 1 ? Int(roll(UInt64(kinds.count))) : 0])
    }

    /// The client registers a new address of the kind at its device's partition, until that is done.
    func tellAddress(_ client: Int, _ kind: Transport.Kind) {
        clients[client].addresses += 1
        clients[client].told[kind] = clients[client].addresses
        clients[client].doubtful[kind, default: []].insert(clients[client].addresses)
        tryAddress(
            client, .init(device: client, kind: kind, number: clients[client].addresses), doubted: nil)
    }

    /// `doubted`: when an earlier try ended without an answer.
    private func tryAddress(_ client: Int, _ address: PushAddress, doubted: MonotonicTime?) {
        guard !putsOff(client, { self.tryAddress(client, address, doubted: doubted) }) else { return }
        // The client registers its newest address of each kind only.
        guard !clients[client].isGone, clients[client].told[address.kind] == address.number,
            let registration = clients[client].registration, let credential = clients[client].credential
        else { return }
        let operation = Operation.setTransport(
            registration, by: .device(credential),
            address.transport(
                keepsMessages: pushKind(client).keepsMessages, webCount: options.webPushCount))
        call("address", by: client, operation) { outcome in
            switch outcome {
            case .done?:
                let former = self.clients[client].stored[address.kind] ?? 0
                self.clients[client].stored[address.kind] = max(former, address.number)
                // If the device has registered a newer one meanwhile, this one may have come after that. An
                // earlier try of this one may come after the device's next one.
                if self.clients[client].told[address.kind] == address.number,
                    doubted.map({ self.now > $0 + .seconds(45) }) ?? true
                {
                    self.clients[client].doubtful[address.kind]?.remove(address.number)
                }
                if self.clients[client].addressed[address.kind] == nil {
                    self.clients[client].addressed[address.kind] = self.now
                }
            case .refused(.unregistered)?: return self.isUnregistered(client)
            default:
                let doubted = outcome == nil ? self.now : doubted
                self.after(self.pause(client, from: 300, to: 1200), .client) {
                    self.tryAddress(client, address, doubted: doubted)
                }
            }
        }
    }

    /// Whether a partition has had an address of this kind of the device from that time on. A device whose
    /// address was gone counts as one without an address: when it listens, the mark of the address goes.
    func hasAddress(_ client: Int, _ kind: Transport.Kind, since time: MonotonicTime) -> Bool {
        guard let first = clients[client].addressed[kind], first < time else { return false }
        return !pushServices.hasGone(kind, 0...(clients[client].told[kind] ?? 0), of: client)
    }

    /// Whether a partition may take the device for unreachable: of each kind of which it had an address in
    /// `stored`, that address or a later one is gone, or one that may have been stored behind a later one.
    func mayBeUnreachable(_ client: Int, since stored: [Transport.Kind: Int]) -> Bool {
        func isGone(_ kind: Transport.Kind, from first: Int) -> Bool {
            let newest = max(first, clients[client].told[kind] ?? 0)
            return pushServices.hasGone(kind, first...newest, of: client)
                || clients[client].doubtful[kind, default: []].contains {
                    pushServices.hasGone(kind, $0...$0, of: client)
                }
        }
        let kinds = pushKind(client).kinds
        return kinds.contains { isGone($0, from: 0) }
            && kinds.allSatisfy { kind in stored[kind].map { isGone(kind, from: $0) } ?? true }
    }

    /// Since when the device has had no address, if that is long enough for the device to end
    /// (rule: unreachable-devices-end). Of each kind, the newest address that is surely stored is gone, or
    /// one that may have been stored since. A stream on which something came begins the time again.
    func unreachable(_ client: Int) -> MonotonicTime? {
        noteClocks()
        let known = clients[client]
        var last: MonotonicTime?
        for kind in pushKind(client).kinds {
            let first = known.stored[kind] ?? 0
            let numbers = known.doubtful[kind, default: []].union(first...max(first, known.told[kind] ?? 0))
            if let gone = pushServices.gone(kind, numbers, of: client) {
                last = max(last ?? gone, gone)
            } else if known.stored[kind] != nil {
                return nil
            }
        }
        guard let most = options.partition.unreachableMax, let gone = last else { return nil }
        // Two owners may date the beginning and the end, each by its own clock.
        let error = believedApart * 2 + max(.seconds(1), options.clocksApart)
        let since = max(gone, known.heard)
        return now.since(since) + error >= most ? gone : nil
    }

    /// A service may have said that the addresses of a device are gone: apps then register another when they
    /// start the next time.
    func tellAddressesAgain() {
        for client in clients.indices {
            for kind in pushKind(client).kinds {
                let newest = PushAddress(
                    device: client, kind: kind, number: clients[client].told[kind] ?? 0)
                let isGone = pushServices.isGone(newest) || hasEarlier(than: newest)
                if isGone, clients[client].registration != nil { tellAddress(client, kind) }
            }
        }
    }

    /// Whether a late copy of an earlier try has stored an earlier address again, which is gone.
    private func hasEarlier(than newest: PushAddress) -> Bool {
        toPush.flatMap(\.markedAddresses).contains { marked in
            guard let stored = PushAddress(marked.stored.transport) else { return false }
            return stored.device == newest.device && stored.kind == newest.kind
                && stored.number < newest.number && pushServices.isGone(stored)
        }
    }

    /// Waits until nothing waits for a push service any more. A partition that may have one message at the
    /// service takes long over many, so the wait ends when nothing goes on. The circuit of a service that
    /// many devices share may be open for the longest pause, and a quarter of it.
    func pushAll() {
        guard options.pushedPerMille > 0 else { return }
        // What waits for a service that a project has lost moves only when the partitions learn of it.
        let told = now + options.patience
        while now < told, !servicesDiffer().isEmpty { run(until: now + .milliseconds(100)) }
        let pause = PushBounds().pauseMax / 4 * 5
        var (limit, pushed) = (now + options.patience + pause + .seconds(90), history.pushes.count)
        while now < limit, toPush.contains(where: mustPush) {
            run(until: now + .milliseconds(500))
            guard history.pushes.count > pushed else { continue }
            (limit, pushed) = (now + options.patience + pause + .seconds(30), history.pushes.count)
        }
        for partition in toPush {
            let count = partition.addressesToPush.count { !isHeldAlone($0) }
            guard count > 0 else { continue }
            violate(
                "G7",
                "long after the last fault partition \(partition.id.rawValue) has \(count) devices to push to"
            )
        }
    }

    /// What the brake holds goes on being tried for long.
    private func mustPush(_ partition: Partition) -> Bool {
        options.brakes
            ? partition.addressesToPush.contains { !isHeldAlone($0) } : partition.pushCount > 0
    }

    private var toPush: [Partition] {
        slots.compactMap(\.process).filter(\.isRunning).flatMap(\.partitions)
    }

    /// Whether the device's service has ended the address, and takes nothing else: its answer is believed a
    /// day later, and the device's messages wait until then (rule: one-word-ends-nothing).
    private func isHeldAlone(_ stored: StoredTransport?) -> Bool {
        guard let stored, stored.mark?.state == .doubted || options.brakes else { return false }
        return PushAddress(stored.transport).map { pushServices.isGone($0) } ?? false
    }
}
