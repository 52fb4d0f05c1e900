// Written by `npm run build` in packages/studio.
[
    ("index-fblltp5d.css", include_bytes!("index-fblltp5d.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-DT_HYW2P.js", include_bytes!("studio-DT_HYW2P.js").as_slice()),
]
