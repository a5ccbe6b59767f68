#if DEBUG
    /// Bugs that are planted in the machines of tokens to show that a checker sees them. Only debug builds
    /// have them, and only a simulation switches them on.
    public struct PlantedInTokens: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// An access token that FCM has refused is used again.
        public static let useRefused = PlantedInTokens(rawValue: 1)
        /// An access token is used past its end, if there is no other.
        public static let useEnded = PlantedInTokens(rawValue: 2)
        /// Each message that waits for an access token brings a request for one.
        public static let fetchForEach = PlantedInTokens(rawValue: 4)
        /// After a failure the next access token is fetched immediately.
        public static let forgetPauses = PlantedInTokens(rawValue: 8)
        /// A token for Apple's service is never changed.
        public static let keepToken = PlantedInTokens(rawValue: 16)
        /// A token for Apple's service is changed each second.
        public static let changeOften = PlantedInTokens(rawValue: 32)
    }
#endif
