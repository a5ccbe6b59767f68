import Model

/// A live stream, as its partition and its gateway know it. When nothing is under way the two must agree.
public struct LiveStream: Hashable, Sendable {
    public var partition: PartitionID
    public var device: DeviceIndex
    public var stream: StreamID
    public init(partition: PartitionID, device: DeviceIndex, stream: StreamID) {
        self.partition = partition
        self.device = device
        self.stream = stream
    }
}

/// The streams of one partition's devices, and the ordered link to each gateway loop that has any.
///
/// None of this is in the journal. A device is *live* when it has everything durable and is sent each new
/// message when the message is durable. Until then the device reads the log.
struct StreamTable {
    struct Attachment {
        var stream: StreamID
        var state: State
        /// Everything up to here was sent to the stream. Not kept up to date while the stream is live.
        var written: Position
        enum State {
            /// What the device acknowledged by coming back is not durable yet: the stream is sent nothing.
            case beginning
            /// Waits until its turn comes, and until the link to its gateway has room.
            case waiting
            /// Waits until the partition may ask the journal for more: the next body is not in memory.
            case bodiless
            /// Waits for the bodies of so many records, which are being read.
            case reading(records: Int)
            /// Waits for a record by which the device loses messages, or by which bodies are gone.
            case losing
            /// Live since the frame of this number was sent to the gateway.
            case live(since: UInt64)
            /// The stream is full; its gateway will say when the stream has room.
            case behind
            /// The gateway confirms too little; the stream reads the log when the gateway confirms more.
            case cutOff
        }
    }
    /// The ordered link to one gateway.
    struct Link {
        /// Live devices. Never shared: changed in place.
        let live = Bitmap()
        var liveCount = 0
        var sent: UInt64 = 0
        var processed: UInt64 = 0
        /// Frames without confirmation, with the newest position of each.
        var outstanding: [(number: UInt64, position: Position)] = []
        /// The gateway has handed every push up to here to its streams.
        var processedPosition = Position.zero
        /// Devices whose streams are `cutOff`. Never shared: changed in place.
        let cutOff = Bitmap()
        /// Devices whose streams are `waiting`, and `bodiless`. Never shared: changed in place.
        let waiting = Bitmap()
        let bodiless = Bitmap()
        /// The devices at or behind which the next turn of each begins.
        var nextWaiting: UInt32 = 0
        var nextBodiless: UInt32 = 0
        /// Frames up to this one may be lost, with their confirmations.
        var lost: UInt64 = 0
        /// The number of the last empty frame, which was sent only to be confirmed.
        var probe: UInt64 = 0
        /// Whether a frame is on its way that the gateway will confirm, unless the link breaks.
        var isAwaited: Bool { sent > max(lost, processed) }
    }

    var attachments: [UInt32: Attachment] = [:]
    var links: [GatewayID: Link] = [:]
    /// Whether a stream was cut off since `stuck` was last empty.
    var mayBeStuck = false
    /// Streams that are `waiting`, and `bodiless`, and the records for which streams wait.
    private(set) var waitingCount = 0
    private(set) var bodilessCount = 0
    private(set) var recordsAwaited = 0
    /// The gateway that was the first of the last turn: the next turn begins behind it.
    private var firstGateway = GatewayID(0)

    var count: Int { attachments.count }
    func attachment(_ index: UInt32) -> Attachment? { attachments[index] }
    var live: [(index: UInt32, stream: StreamID)] {
        attachments.keys.sorted().filter(isLive).compactMap { index in
            attachments[index].map { (index, $0.stream) }
        }
    }
    func isLive(_ index: UInt32) -> Bool {
        guard case .live = attachments[index]?.state else { return false }
        return true
    }

    /// The position up to which a listening device's messages were surely handed to its stream. The gateway
    /// confirms in order, so one confirmed frame behind what the device read of the log proves that too.
    func handedOver(_ index: UInt32) -> Position {
        guard let attachment = attachments[index], case .live(let since) = attachment.state,
            let link = links[attachment.stream.gateway], link.processed > since
        else { return .zero }
        return link.processedPosition
    }

    /// As `handedOver`, also for a stream that has fallen behind: the gateway has said how far it wrote.
    func surelyWritten(_ index: UInt32) -> Position {
        if let attachment = attachments[index], case .behind = attachment.state { return attachment.written }
        return handedOver(index)
    }

    /// Whether the device's gateway has left a frame from before `position` unconfirmed.
    func isHeldUp(_ index: UInt32, before position: Position) -> Bool {
        guard let gateway = attachments[index]?.stream.gateway else { return false }
        return links[gateway]?.outstanding.first.map { $0.position < position } ?? false
    }

    func devices(where isListened: (GatewayID) -> Bool) -> [UInt32] {
        attachments.filter { isListened($0.value.stream.gateway) }.keys.sorted()
    }

    mutating func attach(_ index: UInt32, _ stream: StreamID, after: Position) {
        _ = detach(index)
        if links[stream.gateway] == nil { links[stream.gateway] = Link() }
        attachments[index] = Attachment(stream: stream, state: .beginning, written: after)
    }

    mutating func detach(_ index: UInt32) -> Attachment? {
        guard let attachment = attachments.removeValue(forKey: index) else { return nil }
        leave(index, attachment)
        return attachment
    }

    mutating func setLive(_ index: UInt32) {
        guard let attachment = attachments[index] else { return }
        leave(index, attachment)
        attachments[index]?.state = .live(since: links[attachment.stream.gateway]?.sent ?? 0)
        if links[attachment.stream.gateway]?.live.add(index) ?? false {
            links[attachment.stream.gateway]?.liveCount += 1
        }
    }

    mutating func setBehind(_ index: UInt32, written: Position) {
        guard let attachment = attachments[index] else { return }
        leave(index, attachment)
        attachments[index]?.state = .behind
        attachments[index]?.written = written
    }

    /// Cuts the device's stream off. It comes back with the gateway's other cut-off streams.
    mutating func setCutOff(_ index: UInt32) {
        guard let attachment = attachments[index] else { return }
        leave(index, attachment)
        attachments[index]?.state = .cutOff
        mayBeStuck = true
        _ = links[attachment.stream.gateway]?.cutOff.add(index)
    }

    mutating func setLosing(_ index: UInt32) {
        guard let attachment = attachments[index] else { return }
        leave(index, attachment)
        attachments[index]?.state = .losing
    }

    mutating func setReading(_ index: UInt32, records: Int) {
        guard let attachment = attachments[index] else { return }
        leave(index, attachment)
        attachments[index]?.state = .reading(records: records)
        recordsAwaited += records
    }

    mutating func setWaiting(_ index: UInt32) {
        guard let attachment = attachments[index] else { return }
        leave(index, attachment)
        attachments[index]?.state = .waiting
        if links[attachment.stream.gateway]?.waiting.add(index) ?? false { waitingCount += 1 }
    }

    mutating func setBodiless(_ index: UInt32) {
        guard let attachment = attachments[index] else { return }
        leave(index, attachment)
        attachments[index]?.state = .bodiless
        if links[attachment.stream.gateway]?.bodiless.add(index) ?? false { bodilessCount += 1 }
    }

    /// Gateways with streams that are `waiting`, in the order of their turns. First `count` streams that are
    /// `bodiless` come to wait for their turn again.
    mutating func gatewaysInTurn(bringing count: Int) -> [GatewayID] {
        guard waitingCount > 0 || bodilessCount > 0 else { return [] }
        let sorted = links.keys.sorted { $0.rawValue < $1.rawValue }
        let first = sorted.firstIndex { $0.rawValue > firstGateway.rawValue } ?? 0
        let gateways = Array(sorted[first...] + sorted[..<first])
        var left = count
        while left > 0, bodilessCount > 0 {
            for gateway in gateways where left > 0 {
                guard let link = links[gateway],
                    let index = link.bodiless.next(from: link.nextBodiless) ?? link.bodiless.next(from: 0)
                else { continue }
                links[gateway]?.nextBodiless = index &+ 1
                setWaiting(index)
                left -= 1
            }
        }
        let awaited = gateways.filter { links[$0].map { !$0.waiting.isEmpty } ?? false }
        firstGateway = awaited.first ?? firstGateway
        return awaited
    }

    /// The gateway's next `waiting` stream. `moveOn` makes the one behind it the next.
    func nextWaiting(_ gateway: GatewayID) -> UInt32? {
        guard let link = links[gateway] else { return nil }
        return link.waiting.next(from: link.nextWaiting) ?? link.waiting.next(from: 0)
    }
    mutating func moveOn(behind index: UInt32, _ gateway: GatewayID) {
        links[gateway]?.nextWaiting = index &+ 1
    }
    mutating func setWritten(_ index: UInt32, _ position: Position) {
        guard let attachment = attachments[index], attachment.written < position else { return }
        attachments[index]?.written = position
    }

    /// Forgets gateways that are gone for good: no device listens there, and nothing waits for them.
    mutating func forget(where isGone: (GatewayID) -> Bool) {
        for index in devices(where: isGone) { _ = detach(index) }
        links = links.filter { !isGone($0.key) }
    }

    /// What was sent to the gateway may be lost, and the next confirmation covers it: otherwise a link whose
    /// whole window was lost would stall. The oldest stays, so that nothing lost counts as handed over.
    mutating func forgetOutstanding(_ gateway: GatewayID) {
        guard let link = links[gateway] else { return }
        links[gateway]?.lost = link.sent
        if let first = link.outstanding.first { links[gateway]?.outstanding = [first] }
    }

    /// Takes the device out of the link's set for its state.
    private mutating func leave(_ index: UInt32, _ attachment: Attachment) {
        let gateway = attachment.stream.gateway
        switch attachment.state {
        case .live: if links[gateway]?.live.remove(index) ?? false { links[gateway]?.liveCount -= 1 }
        case .cutOff: _ = links[gateway]?.cutOff.remove(index)
        case .waiting: if links[gateway]?.waiting.remove(index) ?? false { waitingCount -= 1 }
        case .bodiless: if links[gateway]?.bodiless.remove(index) ?? false { bodilessCount -= 1 }
        case .reading(let records): recordsAwaited -= records
        case .beginning, .losing, .behind: break
        }
    }

    /// Numbers a frame whose newest push is at `position`.
    mutating func number(_ gateway: GatewayID, _ position: Position) -> UInt64 {
        links[gateway]?.sent += 1
        let number = links[gateway]?.sent ?? 0
        links[gateway]?.outstanding.append((number, position))
        return number
    }

    /// Numbers an empty frame, which replaces the last empty frame if the gateway has not confirmed that.
    mutating func numberProbe(_ gateway: GatewayID) -> UInt64 {
        guard let link = links[gateway], let last = link.outstanding.last, last.number == link.probe else {
            let number = number(gateway, newestPosition(gateway))
            links[gateway]?.probe = number
            return number
        }
        let number = link.sent + 1
        links[gateway]?.sent = number
        links[gateway]?.probe = number
        links[gateway]?.outstanding[link.outstanding.count - 1].number = number
        return number
    }

    /// Gateways with streams that are cut off.
    var stuck: [GatewayID] {
        links.filter { !$0.value.cutOff.isEmpty }.keys.sorted { $0.rawValue < $1.rawValue }
    }

    /// The gateway has handed its streams the frames up to this number. False if that was known.
    mutating func processed(_ gateway: GatewayID, _ number: UInt64) -> Bool {
        guard var link = links[gateway], number > link.processed, number <= link.sent else { return false }
        link.processed = number
        let confirmed = link.outstanding.prefix { $0.number <= number }
        if let last = confirmed.last { link.processedPosition = max(link.processedPosition, last.position) }
        link.outstanding.removeFirst(confirmed.count)
        links[gateway] = link
        return true
    }

    /// The position of the last push to the gateway.
    func newestPosition(_ gateway: GatewayID) -> Position {
        guard let link = links[gateway] else { return .zero }
        return link.outstanding.last?.position ?? link.processedPosition
    }

    /// Whether the push window to the gateway is full.
    func isFull(_ gateway: GatewayID, _ window: Int) -> Bool {
        (links[gateway]?.outstanding.count ?? 0) >= window
    }

    /// The gateway's next cut-off devices to come back, at most `atOnce`; none while its window is full.
    func returning(_ gateway: GatewayID, _ window: Int, atOnce: Int) -> [UInt32] {
        guard let link = links[gateway], link.outstanding.count < window else { return [] }
        return link.cutOff.first(atOnce)
    }

    /// Cuts the gateway's live devices off, and returns them.
    mutating func cutOff(_ gateway: GatewayID) -> DeviceSet {
        guard let link = links[gateway] else { return DeviceSet() }
        let devices = DeviceSet(link.live.copy())
        let position = newestPosition(gateway)
        devices.forEach { index in
            setWritten(index, position)
            setCutOff(index)
        }
        return devices
    }
}
