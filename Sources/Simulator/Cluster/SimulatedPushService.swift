import Model
import NodeCore
import Partitions
import Routing

/// The push service of a simulated cluster, and what a node's shell does between a loop's sender and the
/// service. The service answers anything: late, twice, or not at all.
final class SimulatedPushService {
    /// A device's address: the device's client and the number of the address among that client's addresses.
    struct Address: Hashable {
        var device: Int
        var number: Int

        /// Devices of all three kinds. Those of one app, and those of FCM, share a fate at their service.
        /// Each browser's endpoint is an origin of its own.
        func transport(keepsMessages: Bool) -> Transport {
            var transport = transport
            transport.keepsMessages = keepsMessages
            return transport
        }
        private var transport: Transport {
            let text = "\(device):\(number)"
            switch Transport.Kind.allCases[device % Transport.Kind.allCases.count] {
            case .web: return Transport(kind: .web, address: Array(text.utf8))
            case .apns:
                let address = APNsAddress(
                    isSandbox: device % 2 == 0, bundleID: "app", token: Array(text.utf8))
                return Transport(kind: .apns, address: address.packed)
            case .fcm: return Transport(kind: .fcm, address: FCMAddress(token: text).packed)
            }
        }
        init(device: Int, number: Int) {
            self.device = device
            self.number = number
        }
        init?(_ transport: Transport) {
            let bytes =
                switch transport.kind {
                case .web: transport.address
                case .apns: APNsAddress(packed: transport.address)?.token ?? []
                case .fcm: Array((FCMAddress(packed: transport.address)?.token ?? "").utf8)
                }
            let parts = String(decoding: bytes, as: UTF8.self).split(separator: ":")
            guard parts.count == 2, let device = Int(parts[0]), let number = Int(parts[1]) else { return nil }
            self.init(device: device, number: number)
        }
    }
    /// A message for a device, in one machine of a partition.
    private struct Handed: Hashable {
        var machine: ObjectIdentifier
        var device: Int
        var message: UInt64
    }

    private unowned let world: ClusterSimulation
    /// Addresses of which the service has said that they are gone.
    private var gone: Set<Address> = []
    /// An address as the device told it once: a device may tell the same address again.
    private struct Told: Hashable {
        var machine: ObjectIdentifier
        var address: Address
        var generation: UInt64
    }
    /// Messages of which a machine has heard that the service has them, and addresses that are gone.
    private var known: Set<Handed> = []
    private var knownGone: Set<Told> = []
    /// Machines are kept so that no two have the same identifier.
    private var machines: [Partition] = []

    init(_ world: ClusterSimulation) { self.world = world }

    /// Whether the service has said of one of these addresses of the device: gone.
    func hasGone(_ numbers: ClosedRange<Int>, of device: Int) -> Bool {
        gone.contains { $0.device == device && numbers.contains($0.number) }
    }
    func isGone(_ address: Address) -> Bool { gone.contains(address) }

    // MARK: What nodes hand over

    /// A partition's machine hands a message to its loop's sender.
    func handed(_ job: PushJob, by machine: Partition) {
        guard let address = Address(job.transport) else {
            return world.violate("pushes", "an address that no device told: \(job.transport)")
        }
        let message = world.number(ofBody: job.event)
        world.debug(
            "device \(address.device) is to be pushed \(message) at address \(address.number) by partition"
                + " \(machine.id.rawValue), push \(job.number)")
        if !machines.contains(where: { $0 === machine }) { machines.append(machine) }
        let handed = Handed(machine: ObjectIdentifier(machine), device: address.device, message: message)
        if known.contains(handed) {
            world.violate("G2", "device \(address.device) is pushed message \(message) again")
        }
        let told = Told(
            machine: ObjectIdentifier(machine), address: address, generation: job.generation)
        if knownGone.contains(told) {
            world.violate("pushes", "device \(address.device) is pushed at an address that is gone")
        }
        checkAcknowledged(message, address.device, before: world.now)
    }

    /// What a device has acknowledged must not be pushed (G2).
    private func checkAcknowledged(_ message: UInt64, _ device: Int, before time: MonotonicTime) {
        let delivery = world.history.deliveries.last { $0.device == device && $0.message == message }
        guard let position = delivery?.position else { return }
        let isAcknowledged = world.history.acknowledgements.contains {
            $0.device == device && $0.position >= position && $0.at < time
        }
        if isAcknowledged {
            world.violate("G2", "device \(device) is pushed message \(message), which it has acknowledged")
        }
    }

    /// The sender has answered a partition's machine.
    func told(_ result: PushReport.Result, of job: PushJob, to machine: Partition) {
        guard let address = Address(job.transport) else { return }
        world.debug("partition \(machine.id.rawValue) hears of push \(job.number): \(result)")
        let machineID = ObjectIdentifier(machine)
        switch result {
        case .done:
            let message = world.number(ofBody: job.event)
            known.insert(Handed(machine: machineID, device: address.device, message: message))
        case .gone:
            knownGone.insert(Told(machine: machineID, address: address, generation: job.generation))
            // What waits for the device is pushed from the beginning where it tells another address.
            if job.transport.keepsMessages { known = known.filter { $0.device != address.device } }
        case .later, .closed: break
        }
    }

    // MARK: The service

    /// A message comes to the service.
    func receive(_ request: PushSend, from loop: SimulatedLoop) {
        // As in the shell: another node may own the partition, and may have pushed the message.
        guard loop.monotonic < loop.authority else {
            let lost = PushOutcome.unsent("another node may own the device's partition")
            return world.after(.milliseconds(1), .network, process: loop.process) {
                loop.post(.pushed(request.number, lost))
            }
        }
        // A message may wait in the sender for a while, and its device may acknowledge the message meanwhile.
        // A clock that stood still shows neither that time nor the end of the lease.
        let waited = PushBounds().waitMax + .seconds(1)
        let stood = loop.process.stoodStill(since: world.now.rewound(by: waited))
        let latest = world.now.rewound(by: waited + stood)
        if let address = Address(request.job.transport) {
            let message = world.number(ofBody: request.job.event)
            checkAcknowledged(message, address.device, before: latest)
        }
        let delay: TimeSpan =
            world.chance(50) ? world.roll(.seconds(8)) : .milliseconds(2) + world.roll(.milliseconds(60))
        world.after(delay, .network, process: loop.process) { [unowned self] in
            let outcome = self.outcome(request.job)
            if self.world.chance(self.isWell ? 0 : 10) { return self.world.count("pushes unanswered") }
            let answer = { loop.post(.pushed(request.number, outcome)) }
            let way = TimeSpan.milliseconds(1) + self.world.roll(.milliseconds(30))
            self.world.after(way, .network, process: loop.process, body: answer)
            if self.world.chance(20) {
                self.world.after(way * 2, .network, process: loop.process, body: answer)
            }
        }
    }

    private var isWell: Bool { world.isHealing }

    private func outcome(_ job: PushJob) -> PushOutcome {
        guard let address = Address(job.transport) else { return .refusedContent("no address") }
        if gone.contains(address) { return .gone }
        if !isWell, world.chance(world.options.pushGonePerMille) {
            gone.insert(address)
            world.count("addresses gone")
            return .gone
        }
        if !isWell, world.chance(world.options.pushFailPerMille) {
            world.count("pushes failed")
            let seconds = world.roll(3) == 0 ? Int(world.roll(4)) : nil
            switch world.roll(4) {
            case 0 where job.transport.kind == .fcm: return .overQuota(retryAfterSeconds: seconds)
            case 0: return .throttled(retryAfterSeconds: seconds)
            case 1: return .credentials("a key that the service does not know")
            default: return .transient(retryAfterSeconds: seconds)
            }
        }
        let message = world.number(ofBody: job.event)
        world.note(message << 8 ^ UInt64(address.device) ^ 0x50_0000)
        world.count("pushes accepted")
        if job.isMomentary { world.count("attempts of now or never") }
        world.history.pushes.append(
            .init(device: address.device, message: message, position: 0, at: world.now))
        return .accepted
    }
}

// MARK: Clients with an address

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

    private func tryAddress(_ client: Int, _ address: SimulatedPushService.Address) {
        // The client tells its newest address only.
        guard !clients[client].isGone, clients[client].addresses == address.number,
            let registration = clients[client].registration, let credential = clients[client].credential
        else { return }
        let operation = Operation.setTransport(
            registration, by: .device(credential),
            address.transport(keepsMessages: pushKind(client).keepsMessages))
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
        return !pushService.hasGone(0...clients[client].addresses, of: client)
    }

    /// A service may have said that the addresses of a device are gone: apps then tell another when they
    /// start the next time.
    func tellAddressesAgain() {
        for client in clients.indices where pushKind(client).isPushed {
            let newest = SimulatedPushService.Address(device: client, number: clients[client].addresses)
            if pushService.isGone(newest), clients[client].registration != nil { tellAddress(client) }
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
