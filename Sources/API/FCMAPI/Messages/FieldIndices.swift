// The indices of fields in their schemas, as plain numbers, so that a send looks up no names. A test compares
// them with the schemas.

enum RequestField {
    static let message = 0
    static let validateOnly = 1
}

enum MessageField {
    static let data = 1
    static let notification = 2
    static let android = 3
    static let androidV2 = 4
    static let webpush = 5
    static let apns = 6
    static let fcmOptions = 7
    /// The targets. A message names exactly one.
    static let fid = 8
    static let token = 9
    static let topic = 10
    static let condition = 11
    static let targets = 8...11
}

extension Platforms {
    /// Both versions of the Android block have these indices, except the last three.
    enum Android {
        static let collapseKey = 0
        static let ttl = 1
        static let data = 3
        static let options = 4
        static let notification = 9
        static let remote = 8
        static let remoteNotification = 0
    }
    enum Web {
        static let headers = 0
        static let data = 1
        static let notification = 2
        static let options = 3
        static let link = 0
        static let label = 1
    }
    enum Apple {
        static let headers = 0
        static let payload = 1
        static let options = 2
        static let liveActivityToken = 3
        static let label = 1
    }
}
