/// Sends numbered messages to one kind of server over one connection, and reports each answer.
final class Publisher: StreamHandler, RedisHandler {
    private let target: Target
    private let topics: [String]
    private let condition: String?
    private let padding: Int
    private var http: HTTP2Connection?
    private var redis: RedisConnection?
    private var heads: [RequestHead] = []
    private var published: [Int] = []
    private var answered = 0
    private(set) var statuses: [Int: Int] = [:]
    private(set) var firstRefusal: String?
    private var refusalBody: [UInt8] = []
    private let poller: Poller
    /// Called for each answer, with the message's number and whether the server took the message.
    var onAnswer: (Int, Bool) -> Void = { _, _ in }

    init(_ poller: Poller, _ target: Target, topics: [String], condition: String?, padding: Int) throws {
        self.poller = poller
        self.target = target
        self.topics = topics
        self.condition = condition
        self.padding = padding
        switch target.kind {
        case .redis:
            redis = try RedisConnection(poller, to: target.publishAddress, tag: 0, handler: self)
        case .nchan, .nchanHTTP1:
            heads = topics.map {
                RequestHead("POST", "/pub/\($0)", authority: target.publishAddress.authority)
            }
            http = try HTTP2Connection(poller, to: target.publishAddress, handler: self)
        case .tidecast, .plain:
            heads = [target.head(post: target.sendPath)]
            http = try HTTP2Connection(poller, to: target.publishAddress, handler: self)
        }
    }

    func publish(_ number: Int) {
        let topic = topics[number % topics.count]
        let data = Target.numbered(number, padding: padding)
        switch target.kind {
        case .redis:
            published.append(number)
            redis?.command(["PUBLISH", topic, data])
        case .nchan, .nchanHTTP1:
            http?.request(heads[number % heads.count], body: Array(data.utf8), tag: number)
        case .tidecast, .plain:
            let aim = condition.map { "\"condition\":\"\($0)\"" } ?? "\"topic\":\"\(topic)\""
            http?.request(heads[0], body: Array("{\"message\":{\(aim),\"data\":\(data)}}".utf8), tag: number)
        }
    }

    func hangUp() {
        http?.hangUp()
        redis?.hangUp()
    }

    func received(_ tag: Int, _ bytes: UnsafeRawBufferPointer) {
        if firstRefusal == nil, refusalBody.count < 1000 { refusalBody = Array(bytes) }
    }

    func ended(_ tag: Int, status: Int, began: UInt64, on connection: LoadConnection) {
        statuses[status, default: 0] += 1
        let isTaken = (200..<300).contains(status)
        if !isTaken, firstRefusal == nil {
            firstRefusal = "HTTP \(status): \(String(decoding: refusalBody, as: UTF8.self))"
        }
        onAnswer(tag, isTaken)
    }

    func replied(_ tag: Int, payload: UnsafeRawBufferPointer?, isError: Bool, on connection: RedisConnection)
    {
        guard answered < published.count else { return }
        let number = published[answered]
        answered += 1
        if answered > 4096 {
            published.removeFirst(answered)
            answered = 0
        }
        statuses[isError ? 500 : 200, default: 0] += 1
        onAnswer(number, !isError)
    }

    func redisLost(_ tag: Int) { statuses[0, default: 0] += 1 }
}
