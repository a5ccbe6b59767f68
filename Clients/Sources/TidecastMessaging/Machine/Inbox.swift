/// Events between the stream and the app: what has come, what the app has in hand, what it has handled.
struct Inbox {
    struct Item: Equatable {
        /// `nil` for a message that the app has handled already: the message came again, and only its id
        /// counts.
        var event: MessagingEvent?
        /// The id of the event; `nil` if the event has none.
        var id: String?

        init(event: MessagingEvent?, id: String? = nil) {
            self.event = event
            self.id = id
        }

        var messageID: String? {
            if case .message(let message) = event { message.messageID } else { nil }
        }
    }

    /// So many events may wait for the app. Past them, the client closes the stream until the app has
    /// handled most of them.
    static let sizeMax = 1_000
    /// So many handled messages are remembered. After a failover of the server's database messages may come
    /// again under other ids of events.
    static let rememberedMax = 512
    /// Handled events that are acknowledged immediately. Fewer wait for `acknowledgePause`.
    static let acknowledgeAt = 20
    static let acknowledgePause = Duration.seconds(1)

    var listener: UInt64?
    /// Whether the listener waits for an event.
    var isHungry = false
    private(set) var waiting: [Item] = []
    private(set) var inHand: Item?
    private var remembered: Set<String> = []
    private var rememberedInOrder: [String] = []
    /// Handled events since the last acknowledgement that was sent.
    private(set) var unacknowledged = 0
    private(set) var acknowledgeDue: Duration?

    var isFull: Bool { waiting.count >= Inbox.sizeMax }
    var isMostlyEmpty: Bool { waiting.count <= Inbox.sizeMax / 4 }

    mutating func append(_ item: Item) {
        guard let message = item.messageID else { return waiting.append(item) }
        if inHand?.messageID == message {
            inHand?.id = item.id
        } else if let index = waiting.firstIndex(where: { $0.messageID == message }) {
            waiting[index].id = item.id
        } else if remembered.contains(message) {
            waiting.append(Item(event: nil, id: item.id))
        } else {
            waiting.append(item)
        }
    }

    /// Takes the next item: the event for the app, or the id of a message that came again.
    mutating func next() -> Item? {
        guard !waiting.isEmpty else { return nil }
        return waiting.removeFirst()
    }

    mutating func hand(_ item: Item) {
        inHand = item
        isHungry = false
    }

    /// The app has handled what it had in hand. Returns the id of the event.
    mutating func handled() -> String? {
        defer { inHand = nil }
        if let message = inHand?.messageID { remember(message) }
        return inHand?.id
    }

    private mutating func remember(_ message: String) {
        guard remembered.insert(message).inserted else { return }
        rememberedInOrder.append(message)
        if rememberedInOrder.count > Inbox.rememberedMax {
            remembered.remove(rememberedInOrder.removeFirst())
        }
    }

    mutating func countHandled(now: Duration) {
        unacknowledged += 1
        let due = unacknowledged >= Inbox.acknowledgeAt ? now : now + Inbox.acknowledgePause
        acknowledgeDue = min(acknowledgeDue ?? due, due)
    }

    mutating func acknowledgeSent() {
        unacknowledged = 0
        acknowledgeDue = nil
    }

    mutating func acknowledgeAgain(at time: Duration) { acknowledgeDue = min(acknowledgeDue ?? time, time) }

    /// The listener is gone. What it has not handled comes again.
    mutating func clear() {
        listener = nil
        isHungry = false
        waiting = []
        inHand = nil
    }

    /// The app has ended the registration: what waits is no longer for it. A message that the app has in hand
    /// stays there.
    mutating func forgetWaiting() { waiting = [] }

    /// Ids of the previous registration mean nothing to the next.
    mutating func forgetPositions() {
        for index in waiting.indices { waiting[index].id = nil }
        inHand?.id = nil
        acknowledgeSent()
    }
}
