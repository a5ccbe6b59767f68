/// The version of this build.
public enum Release {
    public static let version = "0.1.0"
}
