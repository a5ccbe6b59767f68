import Model
import NodeCore
import Routing

// Clients with an address at a push service.

extension ClusterSimulation {
    /// Whether a client tells an address, whether it then never listens, and whether it acknowledges its
    /// messages itself. All of it follows from the client's
    /// number alone, so that runs without addresses roll no dice for it.
    func pushKind(_ client: Int) -> (isPushed: Bool, isSilent: Bool, keepsMessages: Bool) {
        guard options.pushedPerMille > 0 else { return (false, false, false) }
        var random = SeededGenerator(seed: options.seed ^ UInt64(client) &* 0x9E37_79B9)
        let isPushed = random.next(upperBound: UInt64(1000)) < options.pushedPerMille
        guard isPushed else { return (false, false, false) }
        let isSilent = random.next(upperBound: UInt64(3)) > 0
        return (true, isSilent, random.next(upperBound: UInt64(2)) > 0)
    }

    /// The client tells its device's partition a new address, until that is done.
    func tellAddress(_ client: Int) {
        clients[client].addresses += 1
        tryAddress(client, .init(device: client, number: clients[client].addresses))
    }

    private func tryAddress(_ client: Int, _ address: PushAddress) {
        // The client tells its newest address only.
        guard !clients[client].isGone, clients[client].addresses == address.number,
            let registration = clients[client].registration, let credential = clients[client].credential
        else { return }
        let operation = Operation.setTransport(
            registration, by: .device(credential),
            address.transport(
                keepsMessages: pushKind(client).keepsMessages, webCount: options.webPushCount))
        call("address", operation) { outcome in
            switch outcome {
            case .done?:
                self.clients[client].storedAddress = max(
                    self.clients[client].storedAddress, address.number)
                if self.clients[client].addressed == nil { self.clients[client].addressed = self.now }
            case .refused(.unregistered)?: return self.isUnregistered(client)
            default:
                self.after(.milliseconds(300) + self.roll(.milliseconds(900)), .client) {
                    self.tryAddress(client, address)
                }
            }
        }
    }

    /// Whether a partition has had an address of the device from that time on. A device whose address was
    /// gone counts as one without an address: when it listens, the mark of the address goes.
    func hasAddress(_ client: Int, since time: MonotonicTime) -> Bool {
        guard let first = clients[client].addressed, first < time else { return false }
        return !pushServices.hasGone(0...clients[client].addresses, of: client)
    }

    /// Since when an address of the device has been gone, where that is long enough for the device to end
    /// (rule: unreachable-devices-end): the newest address that is surely stored, or one that was told since.
    /// A stream on which something came begins the time again.
    func unreachable(_ client: Int) -> MonotonicTime? {
        noteClocks()
        let told = clients[client]
        guard let most = options.partition.unreachableMax, told.storedAddress <= told.addresses,
            let gone = pushServices.gone(told.storedAddress...told.addresses, of: client)
        else { return nil }
        // Two owners may date the beginning and the end, each by a clock of its own.
        let error = worstClock * 2 + .seconds(1)
        let since = max(gone, told.heard)
        return now.since(since) + error >= most ? gone : nil
    }

    /// A service may have said that the addresses of a device are gone: apps then tell another when they
    /// start the next time.
    func tellAddressesAgain() {
        for client in clients.indices where pushKind(client).isPushed {
            let newest = PushAddress(device: client, number: clients[client].addresses)
            if pushServices.isGone(newest), clients[client].registration != nil { tellAddress(client) }
        }
    }

    /// Waits until nothing waits for a push service any more. A partition that may have one message at the
    /// service takes long over many, so the wait ends when nothing goes on. A service that many devices share
    /// may be left alone for the longest pause, and a quarter of it.
    func pushAll() {
        guard options.pushedPerMille > 0 else { return }
        let pause = PushBounds().pauseMax / 4 * 5
        var (limit, pushed) = (now + options.patience + pause + .seconds(90), history.pushes.count)
        while now < limit, !unpushed.isEmpty {
            run(until: now + .milliseconds(500))
            guard history.pushes.count > pushed else { continue }
            (limit, pushed) = (now + options.patience + pause + .seconds(30), history.pushes.count)
        }
        for found in unpushed { violate("G7", "long after the last fault \(found)") }
    }

    private var unpushed: [String] {
        slots.compactMap(\.process).filter(\.isRunning).flatMap(\.partitions).filter { $0.pushCount > 0 }
            .map { "partition \($0.id.rawValue) has \($0.pushCount) devices to push to" }
    }
}
